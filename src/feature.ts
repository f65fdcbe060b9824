import type { Command } from 'commander';
import type { TSchema } from 'typebox';
import type { DocumentedWebhook } from './api/openapi/webhooks.ts';
import type { Route } from './api/route.ts';
import type { CursorCodec } from './api/routes/page.ts';
import type { Crm } from './crm/crm.ts';
import type { CrmCheck, OrgConnection } from './crm/crm-check.ts';
import type { Audit } from './identity/audit/audit.ts';
import type { Consumers } from './identity/consumers/consumers.ts';
import type { Allowances } from './identity/rate-limits/allowances.ts';
import type { Offers } from './platform/base/offers.ts';
import type { SharedCache } from './platform/cache/shared-cache.ts';
import type { LoadSettings } from './platform/command-line/command.ts';
import type { Job } from './platform/jobs/job-queue.ts';
import type { Probe } from './platform/observability/health.ts';
import type { Log } from './platform/observability/log.ts';
import type { MetricRows, Metrics, MetricsOf } from './platform/observability/metrics.ts';
import type { SecretsManager } from './platform/secrets/secrets-manager.ts';
import type { Settings, SettingsPart } from './platform/settings/table.ts';
import type { Simulated, Simulator } from './platform/simulators/simulator.ts';
import type { Database } from './platform/store/database.ts';
import type { Resources } from './records/mapping.ts';
import type { Records } from './records/records.ts';

export interface Core<S = unknown, M = object> {
  settings: Settings & S;
  log: Log;
  metrics: Metrics & M;
  opened: AsyncDisposableStack;
  stopping: AbortSignal;
  secrets: SecretsManager;
  cache: SharedCache;
  database: Database;
  audit: Audit;
  consumers: Consumers;
  allowances: Allowances;
  crm: Crm;
  resources: Resources;
  records: Records;
  cursors: CursorCodec;
  /** Address of the service for its clients, without a slash at the end; known once requests are answered. */
  publicUrl: () => string;
  offers: Offers;
  simulated: Readonly<Record<string, Simulated>>;
}

export interface Started<R = unknown> {
  /** Null where the settings turn them off: then their paths do not exist. */
  routes?: R | null;
  records?: Records;
  health?: Readonly<Record<string, Probe>>;
  jobs?: readonly Job[];
  home?: string;
}

export interface Erasure {
  /** Plural noun for the report: `webhooks`. */
  label: string;
  count: number;
  fields: Readonly<Record<string, unknown>>;
  left?: readonly string[];
}

export interface ErasureStores {
  database: Database;
  settings: Settings;
  /** The cache in Redis; undefined where none is configured. Throws `CacheUnavailable`. */
  openRedis(): Promise<SharedCache | undefined>;
}

export interface Eraser {
  part: string;
  otherFields?: Readonly<Record<string, unknown>>;
  /** Throws what the stores do; what is erased stays erased. */
  erase(memberId: string, stores: ErasureStores): Promise<Erasure>;
}

export interface Running<S = unknown> {
  settings: Settings & S;
  url: string;
  simulated: Readonly<Record<string, Simulated>>;
}

type BannerLine = readonly [what: string, address: string, note?: string];

/**
 * A capability of the service: all that belongs to it is in its folder; deleting the folder and its line in features.ts
 * removes it.
 */
export interface Feature<S = unknown, T extends MetricRows = MetricRows, R = unknown> {
  name: string;
  settings?: SettingsPart;
  metrics?: T;
  tags?: Readonly<Record<string, string>>;
  health?: Readonly<Record<string, TSchema>>;
  simulator?: Simulator;
  /** Throws what keeps the service from starting. */
  start?(core: Core<S, MetricsOf<T>>): Started<R> | Promise<Started<R>>;
  /**
   * Its routes; called without parts to be documented only. `all`: those of the whole service, once it has them.
   * `possible`: the same with those that settings turn off, to be read and not to be called.
   */
  routes?(
    parts: R,
    cursors: CursorCodec,
    all: () => readonly Route[],
    possible: () => readonly Route[],
  ): Route[];
  webhooks?(all: readonly Route[]): Readonly<Record<string, DocumentedWebhook>>;
  banner?(running: Running<S>): { doors?: readonly BannerLine[]; systems?: readonly BannerLine[] };
  commands?(program: Command, load: LoadSettings): void;
  checks?: readonly DoctorCheck[];
  erasers?: readonly Eraser[];
}

/** Checks a feature against its own settings and metrics, and drops their types so that all features fit one list. */
export function defineFeature<S, T extends MetricRows, R>(feature: Feature<S, T, R>): Feature {
  return feature;
}

export interface DoctorCheck {
  name: string;
  needs: readonly string[];
  /** Resolves to what it found. Throws what is wrong, and `NothingToCheck`. */
  run(context: DoctorContext): Promise<string>;
}

export class NothingToCheck extends Error {}

export interface DoctorContext {
  /** Throws `SettingsError`. */
  load(): Settings;
  opened: AsyncDisposableStack;
  settings?: Settings;
  secrets?: SecretsManager;
  isLocked?: boolean;
  cache?: SharedCache;
  crm?: CrmCheck;
  resources?: Resources;
  assertion?: string;
  org?: OrgConnection;
}

export function settingsOf({ settings }: DoctorContext): Settings {
  return settings as Settings;
}

export function secretsOf({ secrets }: DoctorContext): SecretsManager {
  return secrets as SecretsManager;
}

export function crmOf({ crm }: DoctorContext): CrmCheck {
  return crm as CrmCheck;
}

export function orgOf({ org }: DoctorContext): OrgConnection {
  return org as OrgConnection;
}
