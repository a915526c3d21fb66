/** Finds flags and their values in arguments and in shell texts. */
import { quoteWord } from '../../../trials/shell-words.ts'
import type { Span } from './text-edit.ts'
import type { Path } from './yaml-values.ts'

/** One argument, or the value of a variable that holds arguments. */
export interface ArgumentText {
  /** Path in the container. */
  readonly path: Path
  readonly content: string
  /** A single argument, so that the next argument may be its value. */
  readonly isArgument: boolean
}

/** A flag to search for. */
export interface FlagPattern {
  /** All synonymous names, without dashes. */
  readonly names: readonly string[]
  /** Whether its server treats '-' and '_' in a name alike. */
  readonly isLoose: boolean
}

/** A value with its position. */
export interface FlagValue {
  readonly text: ArgumentText
  readonly start: number
  readonly end: number
  /** Source text, including quotes. */
  readonly written: string
}

const buildNamePattern = ({ names, isLoose }: FlagPattern): string =>
  `(?:${names
    .map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .map((name) => (isLoose ? name.replaceAll(/[-_]/g, '[-_]') : name))
    .join('|')})`

/** A flag must start a word. */
const wordStart = '(?<![\\w./-])'
/**
 * Between flag and value: `=`, blanks, a continued line, or '", "' of a list inside a program's
 * text.
 */
const separator = `(?:=|\\s*\\\\\\r?\\n\\s*|\\s+|["']\\s*,\\s*["'])`
/** A value: "64", '64', ${SEQS}, $(SEQS) or a bare word. */
const valuePattern = `"(?:[^"\\\\]|\\\\.)*"|'[^']*'|\\$\\{[^}]*\\}|\\$\\([^)]*\\)|[^\\s"'\\\\;|&)]+`
const flagStart = /^--?[a-z]/i

/** Finds all values of a flag. */
export function findValues(texts: readonly ArgumentText[], flag: FlagPattern): FlagValue[] {
  const name = buildNamePattern(flag)
  // '--a'; '--a=1'; any '--a 1' within a longer text.
  const alone = new RegExp(`^--?${name}$`)
  const joined = new RegExp(`^(--?${name}=)(\\S[\\s\\S]*)$`)
  const inside = new RegExp(`(${wordStart}--?${name}${separator})(${valuePattern})`, 'g')
  return texts.flatMap((text, i) => {
    const { content } = text
    if (text.isArgument && alone.test(content)) {
      const next = texts[i + 1]
      if (next === undefined || !next.isArgument || flagStart.test(next.content)) return []
      return [createMatch(next, 0, next.content.length)]
    }
    const nameAndValue = joined.exec(content)
    if (text.isArgument && nameAndValue && !/\s--?[a-z]/i.test(nameAndValue[2]!))
      return [createMatch(text, nameAndValue[1]!.length, content.length)]
    return [...content.matchAll(inside)].flatMap((match) => {
      const start = match.index + match[1]!.length
      if (isInComment(content, match.index) || flagStart.test(match[2]!)) return []
      return [createMatch(text, start, start + match[2]!.length)]
    })
  })
}

/** A boolean flag with its position, and its value if any. */
export interface FlagSwitch extends FlagValue {
  readonly value?: FlagValue
}

export function findSwitches(texts: readonly ArgumentText[], flag: FlagPattern): FlagSwitch[] {
  const pattern = new RegExp(
    `${wordStart}--?${buildNamePattern(flag)}(?![\\w-])(?:(=|\\s+)(true|false)\\b)?`,
    'gi',
  )
  return texts.flatMap((text, i) =>
    [...text.content.matchAll(pattern)].flatMap((match): FlagSwitch[] => {
      const { index } = match
      if (isInComment(text.content, index)) return []
      const [whole, separatorText = '', value] = match
      const end = index + whole.length
      if (value !== undefined) {
        const start = end - value.length
        const valueMatch = createMatch(text, start, end)
        return [{ ...createMatch(text, index, start - separatorText.length), value: valueMatch }]
      }
      const next = texts[i + 1]
      const isAlone = text.isArgument && whole === text.content
      const word =
        isAlone && next?.isArgument && /^(true|false)$/i.test(next.content) ? next : undefined
      return [
        {
          ...createMatch(text, index, end),
          ...(word && { value: createMatch(word, 0, word.content.length) }),
        },
      ]
    }),
  )
}

const createMatch = (text: ArgumentText, start: number, end: number): FlagValue => ({
  text,
  start,
  end,
  written: text.content.slice(start, end),
})

/** Whether a position in a shell text is in a comment. */
function isInComment(content: string, at: number): boolean {
  const line = content.slice(content.lastIndexOf('\n', at - 1) + 1, at)
  return /(^|\s)#/.test(line.replace(/'[^']*'|"[^"]*"/g, ''))
}

/** Assignments of a variable in shell texts: 'SEQS=256', 'export SEQS="256"'. */
export const findAssignments = (texts: readonly ArgumentText[], variable: string): FlagValue[] => {
  const pattern = new RegExp(`((?<![\\w$-])${variable}=)(${valuePattern})`, 'g')
  return texts
    .filter(({ content }) => /\s/.test(content))
    .flatMap((text) =>
      [...text.content.matchAll(pattern)].flatMap((match) => {
        const start = match.index + match[1]!.length
        return isInComment(text.content, match.index)
          ? []
          : [createMatch(text, start, start + match[2]!.length)]
      }),
    )
}

/** Finds the variable that a value refers to, and whether it has a default. */
export function findVariable(
  written: string,
): { readonly name: string; readonly hasDefault: boolean } | undefined {
  const unquoted = stripQuotes(written)
  // $(SEQS), ${SEQS}, $SEQS, ${SEQS:-64}
  const [, , inParentheses, inBraces, bare, byDefault] =
    /^\$(\((\w+)\)|\{(\w+)\}|(\w+)|\{(\w+):?[-=][^}]*\})$/.exec(unquoted) ?? []
  const name = inParentheses ?? inBraces ?? bare ?? byDefault
  return name === undefined ? undefined : { name, hasDefault: byDefault !== undefined }
}

/** Strips shell quotes. */
export const stripQuotes = (written: string): string =>
  /^(["'])([\s\S]*)\1$/.exec(written)?.[2] ?? written

/** Replaces a value, keeping its quotes if they can contain the new one. */
export function createReplacement({ text, start, end, written }: FlagValue, value: string): Span {
  const isWholeArgument =
    text.isArgument && end === text.content.length && !/\s/.test(text.content.slice(0, start))
  const quote = /^(["'])[\s\S]*\1$/.exec(written)?.[1]
  const fitsQuotes = quote === "'" ? !value.includes("'") : !/["$`\\]/.test(value)
  // If only the flag precedes the value in the argument, no shell parses the text.
  const insert = isWholeArgument
    ? value
    : quote !== undefined && fitsQuotes
      ? `${quote}${value}${quote}`
      : quoteWord(value)
  return { start, end, insert }
}
