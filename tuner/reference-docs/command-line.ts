/** docs/reference/command-line.md: every command with its flags, from the commands themselves. */
import type { Argument, Command, Help, Option } from 'commander'
import { grouped } from '../../trials/grouped.ts'
import { formatSettingsHelp } from '../../trials/predictor/settings.ts'
import { commandGroups, otherCommands } from '../cli/render/short-help.ts'
import { createProgram, loadCommands } from '../cli/tune-program.ts'
import { experimentFlags } from '../config/flags/flags.ts'
import { defaults } from '../config/names.ts'
import { code, escapeText, sentence, table } from './markdown.ts'

interface Entry {
  readonly command: Command
  readonly help: Help
  /** 'tune store check' */
  readonly title: string
}

const registers = await loadCommands()

export function commandLinePage(): string {
  const program = createProgram(registers)
  const help = program.createHelp()
  const named = new Map(help.visibleCommands(program).map((command) => [command.name(), command]))
  const groups = [
    ...commandGroups.map(({ title, commands }) => ({ title, names: Object.keys(commands) })),
    { title: 'Other commands', names: [...otherCommands] },
  ].map(({ title, names }) => ({
    title,
    entries: names.map((name) => ({
      command: named.get(name)!,
      help,
      title: `tune ${name}`,
    })),
  }))
  return [
    '# Command line',
    introduction,
    commandTable(groups.flatMap(({ entries }) => entries)),
    '## Environment variables',
    environment,
    '## tune',
    'Run an experiment and recommend a configuration. Flags override the [experiment file](experiment-file.md).',
    synopsis('tune [options]'),
    ...optionTables({ command: program, help, title: 'tune' }),
    ...groups.flatMap(({ title, entries }) => [`## ${title}`, ...entries.flatMap(commandSection)]),
  ].join('\n\n')
}

const introduction = `\`tune\` without a command runs an experiment. \`tune COMMAND\` runs one of these commands:`

/** '[tune show](#tune-show)' */
const link = (title: string): string => `[${title}](#${title.replaceAll(' ', '-')})`

const commandTable = (entries: readonly Entry[]): string =>
  table(
    ['command', 'what it does'],
    [
      [link('tune'), 'run an experiment and recommend a configuration'],
      ...entries.map(({ command, title }) => [link(title), escapeText(command.description())]),
      [
        '`tune help [command]`',
        'explain a command; `tune help options` lists every flag of `tune`',
      ],
    ],
  )

const environment = `\
Every flag of \`tune\` that takes one value or none can be set by a variable: capitals, \`_\` for \`-\`, \`TUNE_\` in
front. \`--max-trials 8\` is \`TUNE_MAX_TRIALS=8\`, \`--no-confirm\` is \`TUNE_NO_CONFIRM=1\`. Flags that may be repeated have
none. Flags override variables, and variables override the experiment file.

${table(
  ['variable', 'meaning'],
  [
    ['`TUNE_DB`', 'trial store, for every command with `--db`'],
    ['`TUNE_PROMETHEUS_TOKEN`', 'bearer token of `tune watch --prometheus`'],
    [
      '`TUNE_SECRET_...`',
      'value of a secret that was given on the command line, for `tune resume`, which names the variable',
    ],
    ['`TUNE_MAX_FILE_MIB`', 'maximum size of a file that is read, MiB; raises the built-in limits'],
    ['`TUNE_MAX_ANSWER_MIB`', 'maximum size of one answer of a server, MiB (default: 64)'],
    ['`TUNE_DEBUG=1`', 'print the stack of an error'],
    ['`NO_COLOR`, `CI`', 'no colours; plain lines instead of the live screen'],
    ['`KUBECONFIG`', 'configuration of the cluster, as for kubectl'],
  ],
)}

Results go to stdout, progress and errors to stderr. \`--json\` prints one [document](results.md), \`--events\` one
[event](events.md) a line. [Exit codes](exit-codes.md) are the same for all commands, except where a command says otherwise.`

const synopsis = (text: string): string => `\`\`\`text\n${text}\n\`\`\``

function commandSection(entry: Entry): string[] {
  const { command, help, title } = entry
  const inner = help.visibleCommands(command).filter((one) => one.name() !== 'help')
  return [
    `### ${title}`,
    escapeText(sentence(command.description())),
    ...(inner.length > 0
      ? []
      : [
          synopsis(`${title} ${command.usage()}`.trim()),
          ...argumentTable(command.registeredArguments),
          ...optionTables(entry),
        ]),
    ...afterHelp(command),
    ...(command.name() === 'predictor' ? [synopsis(formatSettingsHelp())] : []),
    ...inner.flatMap((one) =>
      commandSection({ command: one, help, title: `${title} ${one.name()}` }),
    ),
  ]
}

const argumentTable = (given: readonly Argument[]): string[] => {
  const described = given.filter(({ description }) => description !== '')
  return described.length === 0
    ? []
    : [
        table(
          ['argument', 'meaning'],
          described.map((one) => [code(one.name()), escapeText(one.description)]),
        ),
      ]
}

/** Headings of the flags that several commands take. */
const experimentHeadings = new Set(experimentFlags.map(({ group }) => `${group}:`))

/**
 * A table for each group of `--help`, with the group's title above it. The experiment's flags are
 * listed under `tune` alone.
 */
function optionTables({ command, help, title }: Entry): string[] {
  const options = help.visibleOptions(command).filter(({ long }) => long !== '--help')
  const groups = grouped(options, ({ helpGroupHeading = '' }) => helpGroupHeading)
  const isRoot = title === 'tune'
  const shared = [...groups.keys()].filter((heading) => !isRoot && experimentHeadings.has(heading))
  for (const heading of shared) groups.delete(heading)
  const mark = isRoot ? '###' : '####'
  const tables = [...groups].flatMap(([heading, listed]) => [
    ...(heading === '' || groups.size === 1 ? [] : [`${mark} ${heading.replace(/:$/, '')}`]),
    table(['flag', 'meaning', 'default'], listed.map(optionRow)),
  ])
  return shared.length === 0 ? tables : [...tables, experimentFlagsToo]
}

const experimentFlagsToo =
  'It also takes the flags of [tune](#tune) that describe an experiment: all but those under [Output](#output).'

function optionRow(option: Option): string[] {
  const { text, fallback } = readDefault(option)
  const choices = option.argChoices ? `: ${option.argChoices.map(code).join(' or ')}` : ''
  return [code(option.flags), escapeText(text + choices), option.mandatory ? 'required' : fallback]
}

/** Reads the default of an option, from its own text where it is stated there. */
function readDefault({ description, defaultValue, long }: Option): {
  text: string
  fallback: string
} {
  const [all, stated] = /\s*\(default: ((?:[^()]|\([^()]*\))*)\)/.exec(description) ?? []
  if (all !== undefined && stated !== undefined)
    return {
      text: description.replace(all, ''),
      fallback: /^\S+$/.test(stated) && stated !== 'none' ? code(stated) : escapeText(stated),
    }
  // TUNE_DB must not change the page.
  const value = long === '--db' ? defaults.db : defaultValue
  const unset = value === undefined || value === '' || value === true || Array.isArray(value)
  return { text: description, fallback: unset ? '' : code(String(value)) }
}

/** Lists what a command's help says after its flags: examples as code, the rest as text. */
function afterHelp(command: Command): string[] {
  const written: string[] = []
  command.configureOutput({ writeOut: (text) => written.push(text) })
  command.outputHelp()
  const [, ...after] = written
  const lines = after.join('').trim().split('\n')
  const blocks = [...grouped(lines.map(toBlockLine(lines)), ({ block }) => String(block)).values()]
  return blocks.flatMap((block) => {
    const text = block.map(({ line }) => line).join('\n')
    if (text.trim() === '') return []
    return block[0]!.indented
      ? [synopsis(text.replaceAll(/^ {2}/gm, ''))]
      : [escapeText(text.trim())]
  })
}

/** Numbers the blocks of lines: a block ends where the indentation begins or ends. */
const toBlockLine = (lines: readonly string[]) => {
  let block = 0
  return (line: string, i: number) => {
    const indented = line.startsWith('  ')
    if (i > 0 && (indented !== lines[i - 1]!.startsWith('  ') || line === '')) block += 1
    return { line, indented, block }
  }
}
