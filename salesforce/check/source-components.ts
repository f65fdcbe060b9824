import { join } from 'node:path';
import type { ComponentSet, SourceComponent } from '@salesforce/source-deploy-retrieve';
import { readProject } from './package-files.ts';

/** Loads Salesforce's own library. It takes a second, so only what needs it loads it. */
export async function loadSourceDeployRetrieve() {
  // Without this the library writes a log file into the home directory.
  process.env.SF_DISABLE_LOG_FILE ??= 'true';
  return import('@salesforce/source-deploy-retrieve');
}

/** The components that Salesforce's tools find in a package directory, the default one if none is given. */
export async function readComponents(directory: string, folder?: string): Promise<ComponentSet> {
  const { ComponentSet } = await loadSourceDeployRetrieve();
  const { sourceDir, apiVersion } = readProject(directory);
  const components = ComponentSet.fromSource(join(directory, folder ?? sourceDir));
  // Without a version the library asks Salesforce for the newest one.
  components.sourceApiVersion = apiVersion;
  return components;
}

/** The files that belong to a component: its metadata, its content, and for an object its fields and the like. */
export function filesOf(component: SourceComponent): string[] {
  // An object's content is its whole directory, so walking it would claim stray files too.
  const content = component.type.children
    ? component.getChildren().map((child) => child.xml)
    : component.walkContent();
  return [component.xml, ...content].filter((file) => file !== undefined);
}
