/**
 * Splits shell commands into words without a shell, and quotes words. Features that need a shell
 * (pipes, substitutions) are reported, so that callers can use one.
 */

/** A command that cannot be split, with a hint. */
export class ShellError extends Error {
  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message)
  }
}

/** `$NAME`, `${NAME}` or `${NAME:-fallback}`. */
interface ShellReference {
  readonly name: string
  readonly fallback?: string
  /** The text of the reference. */
  readonly text: string
}

/** Expands a reference. */
export type Expand = (reference: ShellReference) => string

interface ShellLine {
  /** Commands in order: `cd app && serve` are two. */
  readonly commands: readonly (readonly string[])[]
  /** Operators between the commands: &&, ||, ;, |, & and line ends as ;. */
  readonly operators: readonly string[]
  /** Index in the text at which the last command begins. */
  readonly lastAt: number
  /** A feature that needs a shell: a redirection, a substitution, a group. */
  readonly needsShell?: string
}

const writeList = (text: string) =>
  `run it in a shell: [sh, -c, ${JSON.stringify(text.length > 60 ? 'exec ...' : text)}]`

/** @throws ShellError for an unclosed quote */
export function parseShell(text: string, expand: Expand): ShellLine {
  const commands: string[][] = [[]]
  const operators: string[] = []
  let word: string | undefined
  let lastAt = 0
  let needsShell: string | undefined
  const endWord = () => {
    if (word !== undefined) commands.at(-1)!.push(word)
    word = undefined
  }
  const endCommand = (operator: string, next: number) => {
    endWord()
    if (commands.at(-1)!.length === 0 && operator === ';') return
    operators.push(operator)
    commands.push([])
    lastAt = next
  }
  for (let i = 0; i < text.length; i++) {
    const letter = text[i]!
    if (letter === '\\') {
      i++
      if (text[i] === '\r' && text[i + 1] === '\n') i++
      else if (text[i] !== '\n') word = (word ?? '') + (text[i] ?? '\\')
    } else if (letter === "'") {
      const end = text.indexOf("'", i + 1)
      if (end < 0) throw createUnclosedError(letter)
      word = (word ?? '') + text.slice(i + 1, end)
      i = end
    } else if (letter === '"') {
      const quoted = readQuoted(text, i + 1, expand)
      word = (word ?? '') + quoted.text
      needsShell ??= quoted.needsShell
      i = quoted.end
    } else if (letter === '$') {
      const found = readReference(text, i, expand)
      word = (word ?? '') + found.text
      needsShell ??= found.needsShell
      i = found.end
    } else if (letter === '#' && word === undefined) {
      while (i + 1 < text.length && text[i + 1] !== '\n') i++
    } else if (letter === '\n' || letter === ';') endCommand(';', i + 1)
    else if (/[<>]/.test(letter) || (letter === '&' && text[i + 1] === '>')) {
      needsShell ??= 'a redirection'
      word = (word ?? '') + letter
      if (/[>&]/.test(text[i + 1] ?? '')) word += text[++i]
    } else if (letter === '&' || letter === '|') {
      const double = text[i + 1] === letter
      endCommand(double ? letter + letter : letter, i + (double ? 2 : 1))
      if (double) i++
    } else if (/\s/.test(letter)) endWord()
    else {
      if (letter === '`') needsShell ??= 'a substitution'
      // In a word they begin no group: app:create().
      if (/[()]/.test(letter) && word === undefined) needsShell ??= 'a group'
      word = (word ?? '') + letter
    }
  }
  endWord()
  if (commands.at(-1)!.length === 0 && commands.length > 1 && operators.at(-1) === ';') {
    commands.pop()
    operators.pop()
  }
  return { commands, operators, lastAt, ...(needsShell !== undefined && { needsShell }) }
}

const createUnclosedError = (quote: string) =>
  new ShellError(
    `the command has an unclosed ${quote}`,
    'close the quote, or write the command as a list',
  )

interface ParsedWord {
  readonly text: string
  /** Index of its end. */
  readonly end: number
  readonly needsShell?: string | undefined
}

function readQuoted(text: string, start: number, expand: Expand): ParsedWord {
  let read = ''
  let needsShell: string | undefined
  for (let i = start; i < text.length; i++) {
    const letter = text[i]!
    if (letter === '"') return { text: read, end: i, needsShell }
    if (letter === '\\' && /[$`"\\\n]/.test(text[i + 1] ?? '')) {
      i++
      if (text[i] !== '\n') read += text[i]
    } else if (letter === '$') {
      const found = readReference(text, i, expand)
      read += found.text
      needsShell ??= found.needsShell
      i = found.end
    } else {
      if (letter === '`') needsShell ??= 'a substitution'
      read += letter
    }
  }
  throw createUnclosedError('"')
}

/** `$${` stays, as an experiment file writes a plain `${`. */
function readReference(text: string, at: number, expand: Expand): ParsedWord {
  const rest = text.slice(at)
  if (rest.startsWith('$$')) return { text: '$$', end: at + 1 }
  if (rest.startsWith('$(')) return { text: '$', end: at, needsShell: 'a substitution' }
  const [whole, braced, plain] = /^\$(?:\{([^}]*)\}|([A-Za-z_]\w*))/.exec(rest) ?? []
  if (whole === undefined) return { text: '$', end: at }
  const end = at + whole.length - 1
  if (plain !== undefined) return { text: expand({ name: plain, text: whole }), end }
  const [, name, fallback] = /^(\w+)(?::?-(.*))?$/s.exec(braced!) ?? []
  if (name === undefined) return { text: whole, end }
  return {
    text: expand({ name, text: whole, ...(fallback !== undefined && { fallback }) }),
    end,
  }
}

/** Quotes a word with single quotes unless a shell reads it as one plain word. */
export const quoteWord = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${joinLines(word).replaceAll("'", `'\\''`)}'`

/** Control characters and line separators as blanks. */
export const joinLines = (text: string): string =>
  text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trimEnd()

/** NAME=value. */
export const isAssignment = (word: string): boolean => /^[A-Za-z_]\w*=/.test(word)

/** Removes `exec`, and passes variables by `env`, so that the command needs no shell. */
export function dropExec(words: readonly string[]): readonly string[] {
  const start = words.findIndex((word) => !isAssignment(word))
  if (start < 0) return words
  const program = words[start] === 'exec' ? words.slice(start + 1) : words.slice(start)
  if (start === 0) return words[0] === 'exec' ? dropExec(program) : program
  return ['env', ...words.slice(0, start), ...(program[0] === 'env' ? program.slice(1) : program)]
}

/**
 * Splits one simple command.
 * @throws ShellError for features that need a shell, and for an empty command
 */
export function splitWords(text: string, expand: Expand): readonly string[] {
  const { commands, operators, needsShell } = parseShell(text, expand)
  const [words = []] = commands
  if (words.length === 0 && operators.length === 0)
    throw new ShellError('the command is empty', 'write the program and its arguments')
  const operator = operators[0]
  if (operator === '&' && commands.length === 2 && commands[1]!.length === 0)
    throw new ShellError('the command ends in & and would run in the background', 'remove the &')
  if (operator === '&&' && words[0] === 'cd' && commands.length === 2)
    throw new ShellError(
      `the command begins with cd ${words[1] ?? ''}, but tune runs it without a shell`,
      `set cwd: ${words[1] ?? 'FOLDER'}, and remove the cd from the command`,
    )
  if (operator !== undefined || needsShell !== undefined)
    throw new ShellError(
      `the command has ${needsShell ?? `'${operator}'`}, but tune runs it without a shell`,
      writeList(text),
    )
  return dropExec(words)
}
