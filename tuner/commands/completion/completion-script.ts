/**
 * Completion scripts, made from the commands themselves, so that no flag is missing. Where no
 * command or flag fits, the shell completes files.
 */
import type { Command, Option } from 'commander'

/** Shells that complete. */
export type Shell = 'bash' | 'zsh' | 'fish'

/** What a shell sources. @param program with all its commands */
export const completionScript = (shell: Shell, program: Command): string => scripts[shell](program)

const scripts: Readonly<Record<Shell, (program: Command) => string>> = { bash, zsh, fish }

const flagsOf = (command: Command): readonly Option[] => [
  ...command.options.filter((option) => !option.hidden),
  command.createOption('--help', 'display help'),
]
const longFlags = (command: Command): string =>
  flagsOf(command)
    .flatMap(({ long }) => long ?? [])
    .join(' ')
const commandNames = (program: Command): string[] => [
  ...program.commands.map((command) => command.name()),
  'help',
]

/** A branch for each command with its flags, for bash and zsh; `words` is what the rest offers. */
function branches(program: Command): string {
  const each = program.commands.map(
    (command) => `    ${command.name()}) words="${longFlags(command)}" ;;`,
  )
  return [...each, `    help) words="${commandNames(program).join(' ')}" ;;`].join('\n')
}

function bash(program: Command): string {
  return `_tune() {
  local current=\${COMP_WORDS[COMP_CWORD]} words="${longFlags(program)}"
  [ "$COMP_CWORD" -eq 1 ] && words="${commandNames(program).join(' ')} $words"
  [ "$COMP_CWORD" -gt 1 ] && case \${COMP_WORDS[1]} in
${branches(program)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tune tune
`
}

function zsh(program: Command): string {
  return `#compdef tune
_tune() {
  local words_="${longFlags(program)}"
  (( CURRENT == 2 )) && words_="${commandNames(program).join(' ')} $words_"
  (( CURRENT > 2 )) && case $words[2] in
${branches(program).replaceAll('words=', 'words_=')}
  esac
  compadd -- \${=words_} || _files
}
compdef _tune tune
`
}

function fish(program: Command): string {
  const quoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const flag = (condition: string) => (option: Option) =>
    option.long
      ? [
          `complete -c tune -n ${quoted(condition)} -l ${option.long.slice(2)} -d ${quoted(option.description)}`,
        ]
      : []
  return `${[
    ...program.commands.map(
      (c) =>
        `complete -c tune -n __fish_use_subcommand -a ${c.name()} -d ${quoted(c.description())}`,
    ),
    `complete -c tune -n '__fish_seen_subcommand_from help' -a ${quoted(commandNames(program).join(' '))}`,
    ...flagsOf(program).flatMap(flag('__fish_use_subcommand')),
    ...program.commands.flatMap((command) =>
      flagsOf(command).flatMap(flag(`__fish_seen_subcommand_from ${command.name()}`)),
    ),
  ].join('\n')}\n`
}
