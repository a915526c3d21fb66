/** Kubernetes objects as YAML, under a header that says where each figure comes from. */
import { stringify } from 'yaml'
import type { Serving } from './serving.ts'

export type Manifest = Readonly<Record<string, unknown>>

/** One file of a spec. */
export interface SpecFile {
  readonly name: string
  readonly text: string
}

/** A document per object; undefined fields are left out. Numbers in strings come out quoted, as quantities must. */
export function manifestsYaml(serving: Serving, objects: readonly Manifest[], notes: readonly string[] = []): string {
  const documents = objects.map((object) => stringify(JSON.parse(JSON.stringify(object)), { lineWidth: 0, version: '1.1' }))
  return `${header(serving, notes)}${documents.join('---\n')}`
}

/** Comment lines: the verdict, the experiment, and a line per figure. Line ends inside a text cannot end the comment. */
export function header(serving: Serving, notes: readonly string[] = [], mark = '#'): string {
  const { evidence, sources } = serving
  const width = Math.max(...sources.map((s) => s.value.length))
  const lines = [
    evidence.verdict,
    `Written by tune from experiment ${evidence.experimentId} (${evidence.provenance}${evidence.measuredAt ? `, ${evidence.measuredAt}` : ''}, seed ${evidence.seed}).`,
    ...(evidence.provenance === 'measured'
      ? []
      : [`The figures are ${evidence.provenance}: measure on the real hardware before you rely on them.`]),
    ...sources.map((s) => `  ${s.value.padEnd(width)}  ${s.from}`),
    ...notes.map((note) => `Note: ${note}`),
  ]
  return lines.map((line) => `${mark} ${oneLine(line)}\n`).join('')
}

/** Control characters and line separators as blanks. */
export const oneLine = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trimEnd()
