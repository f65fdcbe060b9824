import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ApexErrorListener, ApexParserFactory } from '@apexdevtools/apex-parser';
import type { Finding } from './finding.ts';
import { listFiles } from './package-files.ts';

/** Every class and trigger is Apex by its grammar. Types and names are known to an org alone. */
export function checkApex(directory: string): Finding[] {
  return listFiles(directory)
    .filter((file) => /\.(cls|trigger)$/.test(file))
    .flatMap((file) => {
      const faults = new FaultList();
      const { parser } = ApexParserFactory.createLexerAndParser(
        readFileSync(join(directory, file), 'utf8'),
        faults,
      );
      if (file.endsWith('.cls')) parser.compilationUnit();
      else parser.triggerUnit();
      return faults.messages.map((message) => ({ check: 'apex' as const, file, message }));
    });
}

class FaultList extends ApexErrorListener {
  readonly messages: string[] = [];

  apexSyntaxError(line: number, column: number, message: string): void {
    this.messages.push(`Line ${line}, column ${column + 1}: ${message}`);
  }
}
