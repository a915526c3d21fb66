/** Flags and their values in the texts of a command line: list items, and the text of a shell. */
import { quoteWord } from '../../../trials/shell-words.ts'
import type { Span } from './text-edit.ts'
import type { Path } from './yaml-values.ts'

/** One argument, or the value of a variable that holds arguments. */
export interface ArgumentText {
  /** In the container. */
  readonly path: Path
  readonly content: string
  /** The process gets it as it is, so that the next one may be its value. */
  readonly isArgument: boolean
}

/** A flag as it is looked for. */
export interface FlagPattern {
  /** Every name that means the same, without dashes. */
  readonly names: readonly string[]
  /** '-' and '_' in a name are the same to its server. */
  readonly isLoose: boolean
}

/** A value where it stands. */
export interface FlagValue {
  readonly text: ArgumentText
  readonly start: number
  readonly end: number
  /** As it is written, quotes included. */
  readonly written: string
}

const buildNamePattern = ({ names, isLoose }: FlagPattern): string =>
  `(?:${names
    .map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .map((name) => (isLoose ? name.replaceAll(/[-_]/g, '[-_]') : name))
    .join('|')})`

/** Before a flag there is no part of a word. */
const begins = '(?<![\\w./-])'
/** `=`, blanks, a continued line, or the quotes and comma of a list inside of a program's text. */
const separator = `(?:=|\\s*\\\\\\r?\\n\\s*|\\s+|["']\\s*,\\s*["'])`
const aValue = `"(?:[^"\\\\]|\\\\.)*"|'[^']*'|\\$\\{[^}]*\\}|\\$\\([^)]*\\)|[^\\s"'\\\\;|&)]+`
const aFlag = /^--?[a-z]/i

/** Every value that a flag has, wherever it stands. */
export function findValues(texts: readonly ArgumentText[], flag: FlagPattern): FlagValue[] {
  const name = buildNamePattern(flag)
  const alone = new RegExp(`^--?${name}$`)
  const joined = new RegExp(`^(--?${name}=)(\\S[\\s\\S]*)$`)
  const inside = new RegExp(`(${begins}--?${name}${separator})(${aValue})`, 'g')
  return texts.flatMap((text, i) => {
    const { content } = text
    if (text.isArgument && alone.test(content)) {
      const next = texts[i + 1]
      if (next === undefined || !next.isArgument || aFlag.test(next.content)) return []
      return [foundAt(next, 0, next.content.length)]
    }
    const whole = joined.exec(content)
    if (text.isArgument && whole && !/\s--?[a-z]/i.test(whole[2]!))
      return [foundAt(text, whole[1]!.length, content.length)]
    return [...content.matchAll(inside)].flatMap((match) => {
      const start = match.index + match[1]!.length
      if (isInComment(content, match.index) || aFlag.test(match[2]!)) return []
      return [foundAt(text, start, start + match[2]!.length)]
    })
  })
}

/** A switch where it stands: from its dashes to its end, and the value that it has, if any. */
export interface FlagSwitch extends FlagValue {
  readonly value?: FlagValue
}

export function findSwitches(texts: readonly ArgumentText[], flag: FlagPattern): FlagSwitch[] {
  const pattern = new RegExp(
    `${begins}--?${buildNamePattern(flag)}(?![\\w-])(?:(=|\\s+)(true|false)\\b)?`,
    'gi',
  )
  return texts.flatMap((text, i) =>
    [...text.content.matchAll(pattern)].flatMap((match): FlagSwitch[] => {
      const { index } = match
      if (isInComment(text.content, index)) return []
      const [whole, between = '', value] = match
      const end = index + whole.length
      if (value !== undefined) {
        const start = end - value.length
        const found = foundAt(text, start, end)
        return [{ ...foundAt(text, index, start - between.length), value: found }]
      }
      const next = texts[i + 1]
      const isAlone = text.isArgument && whole === text.content
      const word =
        isAlone && next?.isArgument && /^(true|false)$/i.test(next.content) ? next : undefined
      return [
        {
          ...foundAt(text, index, end),
          ...(word && { value: foundAt(word, 0, word.content.length) }),
        },
      ]
    }),
  )
}

const foundAt = (text: ArgumentText, start: number, end: number): FlagValue => ({
  text,
  start,
  end,
  written: text.content.slice(start, end),
})

/** Behind a '#' that begins a word, in a text of several. */
function isInComment(content: string, at: number): boolean {
  const line = content.slice(content.lastIndexOf('\n', at - 1) + 1, at)
  return /(^|\s)#/.test(line.replace(/'[^']*'|"[^"]*"/g, ''))
}

/** Where a variable is given a value in a shell's text: 'SEQS=256', 'export SEQS="256"'. */
export const findAssignments = (texts: readonly ArgumentText[], variable: string): FlagValue[] => {
  const pattern = new RegExp(`((?<![\\w$-])${variable}=)(${aValue})`, 'g')
  return texts
    .filter(({ content }) => /\s/.test(content))
    .flatMap((text) =>
      [...text.content.matchAll(pattern)].flatMap((match) => {
        const start = match.index + match[1]!.length
        return isInComment(text.content, match.index)
          ? []
          : [foundAt(text, start, start + match[2]!.length)]
      }),
    )
}

/** The variable that a value stands for, and its default, if any. */
export function findVariable(
  written: string,
): { readonly name: string; readonly hasDefault: boolean } | undefined {
  const plain = unquoted(written)
  const [, , inParentheses, inBraces, bare, byDefault] =
    /^\$(\((\w+)\)|\{(\w+)\}|(\w+)|\{(\w+):?[-=][^}]*\})$/.exec(plain) ?? []
  const name = inParentheses ?? inBraces ?? bare ?? byDefault
  return name === undefined ? undefined : { name, hasDefault: byDefault !== undefined }
}

/** Without the quotes of a shell around it. */
export const unquoted = (written: string): string =>
  /^(["'])([\s\S]*)\1$/.exec(written)?.[2] ?? written

/** What takes the place of a value: in its quotes where it has some and they can hold it. */
export function replacementFor({ text, start, end, written }: FlagValue, value: string): Span {
  const isWholeArgument =
    text.isArgument && end === text.content.length && !/\s/.test(text.content.slice(0, start))
  const quote = /^(["'])[\s\S]*\1$/.exec(written)?.[1]
  const holds = quote === "'" ? !value.includes("'") : !/["$`\\]/.test(value)
  // Before the value there is a flag alone: no shell reads this.
  const insert = isWholeArgument
    ? value
    : quote !== undefined && holds
      ? `${quote}${value}${quote}`
      : quoteWord(value)
  return { start, end, insert }
}
