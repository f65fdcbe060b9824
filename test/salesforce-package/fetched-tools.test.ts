import assert from 'node:assert/strict';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { packageXml, readComponents } from '../../salesforce/check/components.ts';
import { listFiles, readProject } from '../../salesforce/check/package-files.ts';
import { fetchPackage } from '../support/fetched-package.ts';

/*
 * What Salesforce's own library finds in the package, which the CLI deploys with: it is fetched when the test runs, since it
 * brings as many packages as half of the project. Where it cannot be fetched, the test is skipped.
 */

const library = '@salesforce/source-deploy-retrieve';
const version = '13.7.0';
const directory = join(import.meta.dirname, '../../salesforce');

interface Component {
  xml?: string;
  type: { children?: object };
  getChildren(): Component[];
  walkContent(): string[];
}
interface ComponentSet {
  sourceApiVersion: string;
  getPackageXml(): Promise<string>;
  getSourceComponents(): { toArray(): Component[] };
}
/** What the test uses of the library. */
interface Library {
  ComponentSet: { fromSource(folder: string): ComponentSet };
  MetadataConverter: new () => {
    convert(components: ComponentSet, format: string, output: object): Promise<{ converted?: object[] }>;
  };
}

/** An object's content is its whole folder, so walking it would claim stray files too. */
function filesOf(component: Component): (string | undefined)[] {
  const content = component.type.children
    ? component.getChildren().map(({ xml }) => xml)
    : component.walkContent();
  return [component.xml, ...content];
}

describe("Salesforce's own library", () => {
  test('finds the same components and files, and converts them all', {
    timeout: 300_000,
  }, async (context) => {
    // Without this the library writes a log file into the home directory.
    process.env['SF_DISABLE_LOG_FILE'] ??= 'true';
    await using fetched = await fetchPackage(library, version);
    if (fetched === undefined) return context.skip(`${library}@${version} could not be fetched`);
    const { ComponentSet, MetadataConverter } = await fetched.load<Library>();
    const copy = await mkdtemp(join(tmpdir(), 'salesforce-package-'));
    context.after(async () => {
      await rm(copy, { recursive: true });
    });
    await cp(directory, copy, { recursive: true });
    const { sourceDirs, apiVersion } = readProject(copy);
    for (const folder of [...sourceDirs.filter((one) => listFiles(copy, one).length > 0), 'templates']) {
      const set = ComponentSet.fromSource(join(copy, folder));
      set.sourceApiVersion = apiVersion;
      assert.equal(await set.getPackageXml(), packageXml(readComponents(copy, folder), apiVersion), folder);
      const components = set.getSourceComponents().toArray();
      const claimed = components.flatMap(filesOf).filter((file) => file !== undefined);
      const files = claimed.map((file) => relative(copy, file));
      assert.deepEqual([...new Set(files)].toSorted(), listFiles(copy, folder), folder);
      const output = {
        type: 'directory',
        outputDirectory: join(copy, `out-${folder}`),
        genUniqueDir: false,
      };
      const { converted = [] } = await new MetadataConverter().convert(set, 'metadata', output);
      assert.equal(converted.length, components.length, folder);
    }
  });
});
