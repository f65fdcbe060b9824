/** The language of the integration user, which is that of error texts. */
export const LANGUAGES = ['en', 'de'] as const;

export type Language = (typeof LANGUAGES)[number];

/** Our own translations: they stand for any language but English. */
const GERMAN: readonly (readonly [RegExp, string])[] = [
  [/^Required fields are missing:/, 'Pflichtfelder fehlen:'],
  [
    /^duplicate value found: (\S+) duplicates value on record with id: (\S+)/,
    'Doppelter Wert gefunden: $1 dupliziert den Wert im Datensatz mit ID: $2',
  ],
  [/: data value too large: (.*) \(max length=(\d+)\)$/s, ': Datenwert zu groß: $1 (maximale Länge=$2)'],
  [/: bad value for restricted picklist field:/, ': Ungültiger Wert für eingeschränktes Auswahllistenfeld:'],
  [
    /: value outside of valid range on numeric field:/,
    ': Wert außerhalb des gültigen Bereichs im Zahlenfeld:',
  ],
  [/: invalid email address:/, ': Ungültige E-Mail-Adresse:'],
  [/: id value of incorrect type:/, ': ID-Wert vom falschen Typ:'],
  [
    /: this ID value isn't valid for the user: (\S+)$/,
    ': Dieser ID-Wert ist für den Benutzer nicht gültig: $1',
  ],
  [/^entity type cannot be (?:inserted|updated): /, 'Entitätstyp kann nicht geschrieben werden: '],
  [/^insufficient access rights on object id$/, 'Unzureichende Zugriffsrechte für Objekt-ID'],
  [/^Use one of these records\?$/, 'Einen dieser Datensätze verwenden?'],
  [
    /^Value does not exist or does not match filter criteria\.$/,
    'Der Wert ist nicht vorhanden oder entspricht nicht den Filterkriterien.',
  ],
  [/^invalid cross reference id$/, 'Ungültige Querverweis-ID'],
  [/^entity is deleted$/, 'Entität wurde gelöscht'],
  [
    /^Foreign key external ID: (.*) not found for field (\S+) in entity (\S+)$/s,
    'Externe Fremdschlüssel-ID: $1 wurde für Feld $2 in Entität $3 nicht gefunden',
  ],
  [
    /unable to obtain exclusive access to this record or (\d+) records:/,
    'Kein exklusiver Zugriff auf diesen Datensatz oder $1 Datensätze möglich:',
  ],
  [/^Unable to create\/update fields:/, 'Felder können nicht erstellt oder aktualisiert werden:'],
  [/^(\w+): execution of (\w+)(\s+)caused by:/, '$1: Ausführung von $2$3verursacht durch:'],
  [
    /(Insert|Update|Delete) failed\. First exception on row 0 with id (\S+); first error:/,
    '$1 fehlgeschlagen. Erste Ausnahme in Zeile 0 mit ID $2; erster Fehler:',
  ],
  [
    /^We can't save this record because the “(.*?)” process failed\. Give your Salesforce admin these details\. This error occurred when the flow tried to update records:/,
    'Dieser Datensatz kann nicht gespeichert werden, da der Prozess “$1” fehlgeschlagen ist. Nennen Sie Ihrem Salesforce-Administrator diese Details. Dieser Fehler trat auf, als der Flow versuchte, Datensätze zu aktualisieren:',
  ],
  [
    /^Too many batch retries in the presence of Apex triggers and partial failures\.$/,
    'Zu viele Batch-Wiederholungen bei Apex-Auslösern und teilweisen Fehlern.',
  ],
];

/** The message in another language; codes and texts of administrators stay as they are. */
export function translate(message: string, language: Language): string {
  if (language === 'en') return message;
  return GERMAN.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), message);
}
