/**
 * Renders completion scripts from the commands. If no command or flag matches, the shell completes
 * files.
 */
import type { Command, Option } from 'commander'

/** Supported shells. */
export type Shell = 'bash' | 'zsh' | 'fish'

/**
 * Script for a shell to source.
 * @param program with all its commands
 */
export const renderCompletionScript = (shell: Shell, program: Command): string =>
  scripts[shell](program)

const scripts: Readonly<Record<Shell, (program: Command) => string>> = {
  bash: renderBash,
  zsh: renderZsh,
  fish: renderFish,
}

const listOptions = (command: Command): readonly Option[] => [
  ...command.options.filter((option) => !option.hidden),
  command.createOption('--help', 'display help'),
]
const formatLongFlags = (command: Command): string =>
  listOptions(command)
    .flatMap(({ long }) => long ?? [])
    .join(' ')
const listCommandNames = (program: Command): string[] => [
  ...program.commands.map((command) => command.name()),
  'help',
]

/** Formats a case branch with the flags of each command, for bash and zsh. */
function formatBranches(program: Command): string {
  const each = program.commands.map(
    (command) => `    ${command.name()}) words="${formatLongFlags(command)}" ;;`,
  )
  return [...each, `    help) words="${listCommandNames(program).join(' ')}" ;;`].join('\n')
}

function renderBash(program: Command): string {
  return `_tune() {
  local current=\${COMP_WORDS[COMP_CWORD]} words="${formatLongFlags(program)}"
  [ "$COMP_CWORD" -eq 1 ] && words="${listCommandNames(program).join(' ')} $words"
  [ "$COMP_CWORD" -gt 1 ] && case \${COMP_WORDS[1]} in
${formatBranches(program)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tune tune
`
}

function renderZsh(program: Command): string {
  return `#compdef tune
_tune() {
  local words_="${formatLongFlags(program)}"
  (( CURRENT == 2 )) && words_="${listCommandNames(program).join(' ')} $words_"
  (( CURRENT > 2 )) && case $words[2] in
${formatBranches(program).replaceAll('words=', 'words_=')}
  esac
  compadd -- \${=words_} || _files
}
compdef _tune tune
`
}

function renderFish(program: Command): string {
  const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const renderFlag = (condition: string) => (option: Option) =>
    option.long
      ? [
          `complete -c tune -n ${quote(condition)} -l ${option.long.slice(2)} -d ${quote(option.description)}`,
        ]
      : []
  return `${[
    ...program.commands.map(
      (c) =>
        `complete -c tune -n __fish_use_subcommand -a ${c.name()} -d ${quote(c.description())}`,
    ),
    `complete -c tune -n '__fish_seen_subcommand_from help' -a ${quote(listCommandNames(program).join(' '))}`,
    ...listOptions(program).flatMap(renderFlag('__fish_use_subcommand')),
    ...program.commands.flatMap((command) =>
      listOptions(command).flatMap(renderFlag(`__fish_seen_subcommand_from ${command.name()}`)),
    ),
  ].join('\n')}\n`
}
