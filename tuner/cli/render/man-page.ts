/** Renders the manual page tune(1) from the commands, in roff with the man macros (man(7)). */
import type { Command, Help } from 'commander'
import { grouped } from '../../../trials/grouped.ts'

interface ManPage {
  readonly version: string
  readonly exitStatus: string
}

/** @param program with all its commands */
export function renderManPage(program: Command, { version, exitStatus }: ManPage): string {
  const help = program.createHelp()
  const commands = help.visibleCommands(program).filter((command) => command.name() !== 'help')
  const lines = [
    `.TH TUNE 1 "" "tune ${version}" "User Commands"`,
    '.SH NAME',
    `tune \\- ${lowerFirst(escapeLine(program.description()))}`,
    '.SH SYNOPSIS',
    '.B tune',
    escapeLine('[options]'),
    '.br',
    '.B tune',
    escapeLine('COMMAND [options] [arguments]'),
    '.SH DESCRIPTION',
    escapeLine(program.description()),
    'Without a command it runs an experiment and recommends.',
    '.SH OPTIONS',
    ...formatOptions(program, help),
    '.SH COMMANDS',
    ...commands.flatMap((command) => [
      `.SS ${quoteArgument(`tune ${command.name()} ${command.usage().replace(/^\[options\] ?/, '')}`.trim())}`,
      escapeLine(command.description()),
      ...command.registeredArguments.flatMap((one) =>
        one.description === '' ? [] : formatItem(one.name(), one.description),
      ),
      ...formatOptions(command, help),
    ]),
    '.SH EXIT STATUS',
    escapeLine(exitStatus),
    '.SH ENVIRONMENT',
    ...formatItem(
      'TUNE_NAME',
      'every flag with at most one value, in capitals with _ for -: TUNE_SLO, TUNE_MAX_TRIALS, TUNE_NO_CONFIRM=1; flags override them',
    ),
    ...formatItem('NO_COLOR, CI', 'no colours; plain lines instead of the live screen'),
    '.SH FILES',
    ...formatItem(
      '.tune/tune.db',
      'experiments and their trials, unless --db sets another file; logs of predictors are in the same folder',
    ),
    ...formatItem('tune-results/', 'recommendations, unless --out sets another folder'),
  ]
  return `${lines.join('\n')}\n`
}

/** Options under the headings of `--help`. */
function formatOptions(command: Command, help: Help): string[] {
  const groups = grouped(
    help.visibleOptions(command),
    ({ helpGroupHeading = '' }) => helpGroupHeading,
  )
  return [...groups].flatMap(([heading, options]) => [
    ...(heading === '' ? [] : ['.PP', `.B ${quoteArgument(heading)}`]),
    ...options.flatMap((option) => formatItem(option.flags, help.optionDescription(option))),
  ])
}

const formatItem = (term: string, what: string): string[] => [
  '.TP',
  `.B ${quoteArgument(term)}`,
  escapeLine(what),
]

/** Quotes an argument of a macro. */
const quoteArgument = (text: string): string => `"${escapeRoff(text).replaceAll('"', '\\(dq')}"`

/** Escapes a text line: a leading dot or apostrophe would be a roff request. */
const escapeLine = (text: string): string => escapeRoff(text).replaceAll(/^(?=[.'])/gm, '\\&')

const escapeRoff = (text: string): string =>
  text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('\u2019', "'")

const lowerFirst = (text: string): string =>
  `${text.charAt(0).toLowerCase()}${text.slice(1)}`.replace(/\.$/, '')
