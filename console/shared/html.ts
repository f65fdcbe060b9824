import htm from 'htm';
import { h, type VNode } from 'preact';

/** Markup as a tagged template. Every text in it is shown as text: nothing is ever parsed as markup. */
export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode;

/** What can stand between two tags. */
export type Child = VNode | string | number | null | undefined | false | Child[];
