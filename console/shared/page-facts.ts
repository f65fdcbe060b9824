/** What the service tells its page before anybody signs in: `src/features/console/console-files.ts` writes it. */
interface PageFacts {
  environment: string;
  version: string;
  /** People's name for the CRM: `crm.name`. */
  crm_name: string;
  /** How people sign in with an account of their company; null where they cannot. */
  people: { label: string; only: boolean } | null;
  /** Origins of the pages that may pass results. */
  result_origins: readonly string[];
  /** Whether there are simulated systems to break. */
  can_break: boolean;
  /** Address of results to try the hand-off with; null in production. */
  samples: string | null;
}

export const pageFacts = JSON.parse(document.documentElement.dataset['facts'] ?? '{}') as PageFacts;
export const crmName = pageFacts.crm_name;

/** A text of the API, which can't know what people call the CRM. */
export function withCrmName(text: string): string {
  return text.replace(/\bthe CRM\b/gi, () => crmName);
}
