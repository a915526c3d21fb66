/** A server's command as its user types it into a shell, and how trials start it. Pure. */
import { basename } from 'node:path'
import { dropExec, type Expand, parseShell, quoteWord, ShellError } from '../shell-words.ts'
import { launcherPlaceholders } from './placeholders.ts'

/** The words of the server's command, and the shell around them. */
export interface TypedCommand {
  readonly words: readonly string[]
  /** DIR of `cd DIR && command`. */
  readonly cwd?: string
  /** A shell that first runs the set-up: ['bash', '-lc'] and 'migrate &&'. */
  readonly shell?: { readonly words: readonly string[]; readonly setup: string }
}

/** Shell builtins that do more than start a program. */
const builtins =
  /^(?:\.|source|set|export|ulimit|umask|eval|if|for|while|until|case|exit|trap|alias|unset|\[|\[\[|\{|!)$/
const shells = /^(?:sh|bash|dash|zsh|ash)$/

/** @throws ShellError for invalid shell syntax, and for a server in the background */
export function readTypedCommand(
  typed: string | readonly string[],
  variables: Readonly<Record<string, string | undefined>>,
): TypedCommand {
  if (typeof typed === 'string') return readScript(typed, ['sh', '-c'], variables)
  const words = dropExec(typed)
  const [shell = '', flag = '', script, ...more] = words
  if (shells.test(basename(shell)) && /^-[a-z]*c$/.test(flag) && script !== undefined) {
    // More words are the script's own parameters ($0, $1), so it runs as it is.
    return more.length > 0 ? { words } : readScript(script, [shell, flag], variables)
  }
  return { words: words.map((word) => expandPort(word)) }
}

/**
 * Refuses a script that fixes its port, which trials cannot share.
 * @throws ShellError
 */
function checkPort(script: string, shellFeature: string): void {
  const fixed = /(?:[:=]|-b ?|-p ?|port[ =])["']?(\d{2,5})\b(?![.:])/i.exec(script)?.[1]
  if (fixed === undefined || /\$\{?PORT\b|\$\{port\}/.test(script)) return
  throw new ShellError(
    `the command needs a shell because of ${shellFeature}, and fixes port ${fixed}, which trials cannot share`,
    shellFeature === 'a redirection'
      ? 'remove the redirection: tune saves the output with the trial'
      : `write ${'${port}'} instead of ${fixed}, or only the command of the server itself`,
  )
}

/** Replaces $PORT in a word that no shell expands. */
const expandPort = (word: string): string =>
  word.replace(/\$(?:\{PORT(?::?-[^}]*)?\}|PORT\b)/g, '${port}')

function readScript(
  script: string,
  shell: readonly string[],
  variables: Readonly<Record<string, string | undefined>>,
): TypedCommand {
  const { commands, operators, lastAt, needsShell } = parseShell(
    script,
    expandFrom(variables, script),
  )
  const words = commands.at(-1)!
  if (operators.includes('&'))
    throw new ShellError(
      'the command starts its server in the background (&), where tune cannot tell when it ends',
      'remove the & and everything after it',
    )
  const [first = []] = commands
  const isPlain = needsShell === undefined && !builtins.test(words[0] ?? '')
  // A single command needs no shell.
  if (isPlain && commands.length === 1) return readTypedCommand(words, variables)
  if (isPlain && commands.length === 2 && operators[0] === '&&' && first[0] === 'cd' && first[1])
    return { ...readTypedCommand(words, variables), cwd: first[1] }
  // Set-up steps, then the server: keep the shell, and exec the server.
  if (isPlain && operators.every((operator) => operator === '&&' || operator === ';'))
    return {
      words: dropExec(words).map(expandPort),
      shell: { words: shell, setup: escapePlaceholders(script.slice(0, lastAt).trim()) },
    }
  // Anything else: run the script as it is, without tuned arguments.
  checkPort(script, needsShell ?? `'${operators[0] ?? words[0]}'`)
  return { words: [...shell, escapePlaceholders(script)] }
}

/**
 * Expands what a shell would: the trial's port, variables of the command and of this shell.
 * Placeholders of the launcher stay, for the launcher to fill in.
 */
function expandFrom(
  variables: Readonly<Record<string, string | undefined>>,
  script: string,
): Expand {
  return ({ name, fallback, text }) => {
    if (name === 'PORT') return '${port}'
    const setInScript = new RegExp(`(?:^|\\s)${name}=([^\\s;&|'"]*)`).exec(script)?.[1]
    const value = setInScript ?? variables[name] ?? fallback
    if (value !== undefined && !isPlaceholder(name)) return value
    if (name === 'HOST') return '${host}'
    if (text.startsWith('${')) return text
    throw new ShellError(
      `the command uses $${name}, which is not set`,
      `export ${name}=..., or write its value`,
    )
  }
}

const isPlaceholder = (name: string): boolean =>
  (launcherPlaceholders as readonly string[]).includes(name)

/** A script as a template: `${...}` of the shell is escaped, so that no trial fills it in. */
const escapePlaceholders = (script: string): string =>
  script.replace(/(?<!\$)\$\{([^}]*)\}/g, (whole, name: string) =>
    isPlaceholder(name) ? whole : `$${whole}`,
  )

/** Writes the command for the launcher, with rewritten words of the server. */
export const writeCommand = (
  { shell }: TypedCommand,
  words: readonly string[],
): readonly string[] =>
  shell === undefined
    ? words
    : [...shell.words, `${shell.setup} exec ${words.map(quoteWord).join(' ')}`]
