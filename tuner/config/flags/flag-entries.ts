/**
 * What a flag is, and how those that may stand several times become entries of the experiment file.
 */
import { Option } from 'commander'
import { categoryNames } from '../../../search/categories.ts'
import type { Draft } from '../draft.ts'
import { headerOf, noHeader } from '../header-text.ts'
import type { ConfigProblem, Origin } from '../types.ts'
import type { Path } from '../yaml-file.ts'

export interface Flag {
  /** As commander takes it: '--max-trials <n>'. */
  readonly flags: string
  readonly group: string
  readonly what: string
  /** Where its value goes in the experiment file. */
  readonly path: Path
  /** For flags that may stand several times: what each becomes at the path. */
  readonly gather?: keyof typeof gathered
  /** What stands at the path where the user sets nothing. */
  readonly default?: string | number | boolean
  /** What is written at the path, where it is not the text itself. */
  readonly value?: unknown
  /**
   * Splits a short form into entries below the path, so that another flag may set the rest of them.
   */
  readonly parts?: (text: string) => Readonly<Record<string, unknown>>
  /** May stand several times: one text with commas. */
  readonly joined?: boolean
}

/** --max-trials, and its key among commander's options: maxTrials (confirm for --no-confirm). */
export function namesOf(flag: Flag): { long: string; key: string } {
  const option = new Option(flag.flags)
  return { long: option.long ?? flag.flags, key: option.attributeName() }
}

interface Entry {
  readonly name: string
  readonly value: unknown
}

/**
 * Each text as an entry of its own below the path; undefined where it is none, with what it should
 * be.
 */
const gathered = {
  /** name=value */
  entries: (text: string) => pairOf(text),
  /** name=value, and a name that comes again has a list of values. */
  fields: (text: string) => pairOf(text),
  /** name=value, of which the value may be JSON. */
  documents: (text: string) => {
    const pair = pairOf(text)
    return pair && { name: pair.name, value: plainValue(pair.value) }
  },
  /** name=values, the name with its category before it: args:batch=1..8. */
  parameters: (text: string) => {
    const [, category, name, values] = parameterPattern.exec(text) ?? []
    if (name === undefined || name === '__proto__') return undefined
    return { name, value: category ? { values, category } : values }
  },
  /** Name: value */
  headers: headerOf,
  /** All of them as one list. */
  list: undefined,
} satisfies Record<string, ((text: string) => Entry | undefined) | undefined>

const parameterPattern = new RegExp(`^(?:(${categoryNames.join('|')}):)?([^=:\\s]+)=(.*)$`, 's')

function pairOf(text: string): { name: string; value: string } | undefined {
  const [, name, value] = /^([^=:\s]+)=(.*)$/s.exec(text) ?? []
  return name === undefined || value === undefined || name === '__proto__'
    ? undefined
    : { name, value: value.trim() }
}

function plainValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * Sets what a flag that stands several times says. A text that is no entry is a problem; of a
 * header only its name is repeated.
 */
export function gatherFlag(
  flag: Flag,
  texts: readonly string[],
  { draft, origin, problems }: { draft: Draft; origin: Origin; problems: ConfigProblem[] },
): void {
  const entryOf = flag.gather && gathered[flag.gather]
  if (!entryOf) {
    draft.set(flag.path, [...texts], origin)
    return
  }
  const { long } = namesOf(flag)
  const example = /: ('[^']*'|[^\s;,]+)/.exec(flag.what)?.[1] ?? flag.flags.split(' ')[1]
  const said = new Map<string, unknown>()
  for (const text of texts) {
    const entry = entryOf(text)
    if (entry) {
      const before = flag.gather === 'fields' ? said.get(entry.name) : undefined
      const value = before === undefined ? entry.value : [before, entry.value].flat()
      said.set(entry.name, value)
      draft.set([...flag.path, entry.name], value, origin)
    } else
      problems.push({
        where: long,
        what: flag.gather === 'headers' ? noHeader(text) : `'${text}' is not name=value`,
        hint: `write, for example, ${long} ${example}`,
      })
  }
}
