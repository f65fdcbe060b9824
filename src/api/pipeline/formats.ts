import { readMoment } from '../../platform/base/moment.ts';
import { isUuid, isVisible } from '../../platform/base/text.ts';

/** Text that the CRM and the database can both hold: well-formed Unicode without the NUL character. */
function isText(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0');
}

export const patterns = {
  notBlank: { source: '\\S', message: 'must contain more than white space' },
  twoOrMore: {
    source: '\\S[\\s\\S]*\\S',
    message: 'must have at least 2 characters, without leading and trailing white space',
  },
  phone: {
    source: '^\\+(?:[ ().-]{0,2}[0-9]){7,15}$',
    message: 'must be + and 7 to 15 digits; spaces, dots, dashes and parentheses may stand between them',
  },
  utcSeconds: {
    source: '^[^.]{19}(\\.0{1,9})?Z$',
    message: 'must be a time in UTC with whole seconds, for example 2026-12-04T19:00:00Z',
  },
};

function isMoment(value: string): boolean {
  return readMoment(value) !== undefined;
}

export const formats = { uuid: isUuid, text: isText, visible: isVisible, 'date-time': isMoment };
