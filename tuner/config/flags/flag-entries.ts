/** The shape of a flag, and how repeatable flags become entries of the experiment file. */
import { Option } from 'commander'
import { categoryNames } from '../../../search/categories.ts'
import type { Draft } from '../draft.ts'
import type { ConfigProblem, Origin } from '../types.ts'
import type { Path } from '../yaml-file.ts'

export interface Flag {
  /** Text for commander: '--max-trials <n>'. */
  readonly flags: string
  readonly group: string
  readonly what: string
  /** Path in the experiment file that the flag sets. */
  readonly path: Path
  /** For repeatable flags: how each occurrence is parsed. */
  readonly gather?: keyof typeof entryParsers
  /** Value if the user sets nothing. */
  readonly default?: string | number | boolean
  /** Value that the flag sets, for flags without an argument. */
  readonly value?: unknown
  /** Splits a short form into entries below the path, so that other flags may set the rest. */
  readonly parts?: (text: string) => Readonly<Record<string, unknown>>
  /** Repeatable: the occurrences are joined with commas. */
  readonly joined?: boolean
}

/** --max-trials, and its key among commander's options: maxTrials (confirm for --no-confirm). */
export function parseFlagNames(flag: Flag): { long: string; key: string } {
  const option = new Option(flag.flags)
  return { long: option.long ?? flag.flags, key: option.attributeName() }
}

interface Entry {
  readonly name: string
  readonly value: unknown
}

/** Parses one occurrence as an entry below the path; undefined if it is malformed. */
const entryParsers = {
  /** name=value */
  entries: (text: string) => parsePair(text),
  /** name=value; a repeated name collects a list of values. */
  fields: (text: string) => parsePair(text),
  /** name=value, whose value may be JSON. */
  documents: (text: string) => {
    const pair = parsePair(text)
    return pair && { name: pair.name, value: parseJsonOrText(pair.value) }
  },
  /** name=values, optionally with a category: args:batch=1..8. */
  parameters: (text: string) => {
    const [, category, name, values] = parameterPattern.exec(text) ?? []
    if (name === undefined || name === '__proto__') return undefined
    return { name, value: category ? { values, category } : values }
  },
  /** Name: value */
  headers: parseHeader,
  /** All occurrences as one list. */
  list: undefined,
} satisfies Record<string, ((text: string) => Entry | undefined) | undefined>

const parameterPattern = new RegExp(`^(?:(${categoryNames.join('|')}):)?([^=:\\s]+)=(.*)$`, 's')

function parsePair(text: string): { name: string; value: string } | undefined {
  const [, name, value] = /^([^=:\s]+)=(.*)$/s.exec(text) ?? []
  return name === undefined || value === undefined || name === '__proto__'
    ? undefined
    : { name, value: value.trim() }
}

function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * Sets the entries of a repeatable flag. A malformed text is a problem; of a header only the name
 * is repeated, because the value may be secret.
 */
export function setRepeatedFlag(
  flag: Flag,
  texts: readonly string[],
  { draft, origin, problems }: { draft: Draft; origin: Origin; problems: ConfigProblem[] },
): void {
  const parseEntry = flag.gather && entryParsers[flag.gather]
  if (!parseEntry) {
    draft.set(flag.path, [...texts], origin)
    return
  }
  const { long } = parseFlagNames(flag)
  const example = /: ('[^']*'|[^\s;,]+)/.exec(flag.what)?.[1] ?? flag.flags.split(' ')[1]
  const valuesByName = new Map<string, unknown>()
  for (const text of texts) {
    const entry = parseEntry(text)
    if (entry) {
      const before = flag.gather === 'fields' ? valuesByName.get(entry.name) : undefined
      const value = before === undefined ? entry.value : [before, entry.value].flat()
      valuesByName.set(entry.name, value)
      draft.set([...flag.path, entry.name], value, origin)
    } else
      problems.push({
        where: long,
        what: flag.gather === 'headers' ? describeBadHeader(text) : `'${text}' is not name=value`,
        hint: `write, for example, ${long} ${example}`,
      })
  }
}

/**
 * Splits 'Name: value'; undefined if it is no header. ':authority: name', as in HTTP/2 and grpcurl,
 * becomes the header Host.
 */
export function parseHeader(
  text: string,
): { readonly name: string; readonly value: string } | undefined {
  const [, authority] = /^:authority:\s*(.*)$/i.exec(text) ?? []
  if (authority !== undefined) return { name: 'Host', value: authority }
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/.exec(text) ?? []
  return name === undefined || value === undefined || name === '__proto__'
    ? undefined
    : { name, value }
}

/** Message about a malformed header. It repeats only the name, because the value may be secret. */
export const describeBadHeader = (text: string): string =>
  `'${text.split(':')[0]}' is not a header: write 'Name: value'`
