import type { VNode } from 'preact';
import type { Money } from './guess.ts';

/** A decimal number without grouping: what can be grouped, and added up, without a guess. */
const decimal = /^\d+(\.\d+)?$/;

/** `1,204.55 EUR` as the reader writes numbers; what is no plain decimal stays as it was sent. */
function formatMoney({ amount, currency }: Money): string {
  const text = decimal.test(amount) ? grouped(amount) : amount;
  return currency === undefined ? text : `${text} ${currency}`;
}

function grouped(amount: string): string {
  const sent = amount.split('.')[1]?.length ?? 0;
  // JSON numbers lose the zero of 612.40.
  const digits = sent === 1 ? 2 : sent;
  const format = new Intl.NumberFormat(undefined, {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  // As text: no digit of a long amount is lost.
  return format.format(amount as Intl.StringNumericLiteral);
}

/** An amount, with the digits that were sent in its title. */
export function Amount({ money }: { money: Money }): VNode {
  return (
    <span
      class="amount"
      title={money.currency === undefined ? money.amount : `${money.amount} ${money.currency}`}
    >
      {formatMoney(money)}
    </span>
  );
}

const moneyNames = /(^|_)(budget|price|amount|total|cost|costs|fee|fees|deposit|fare|net|gross)$/;

/** Whether a field of a record is an amount by its name, such as `budget` or `netPrice`, and by its value. */
export function isMoney({ name, text }: { name: string; text: string }): boolean {
  const words = name.replace(/([a-z\d])([A-Z])/g, '$1_$2').toLowerCase();
  return moneyNames.test(words) && decimal.test(text);
}

/** Sums by currency. Amounts without a currency, or not written as a plain decimal, are in none. */
export function sums(amounts: readonly Money[]): Money[] {
  const known = amounts.filter(({ amount, currency }) => currency !== undefined && decimal.test(amount));
  return [...Map.groupBy(known, ({ currency }) => currency)].map(([currency, of]) => ({
    amount: add(of.map(({ amount }) => amount)),
    currency,
  }));
}

function add(amounts: readonly string[]): string {
  const digits = Math.max(...amounts.map((amount) => amount.split('.')[1]?.length ?? 0));
  const units = amounts.map((amount) => {
    const [whole = '', part = ''] = amount.split('.');
    return BigInt(whole + part.padEnd(digits, '0'));
  });
  const sum = String(units.reduce((total, one) => total + one, 0n)).padStart(digits + 1, '0');
  return digits === 0 ? sum : `${sum.slice(0, -digits)}.${sum.slice(-digits)}`;
}
