/**
 * The manual page, tune(1), made from the commands themselves, so that no flag is missing: roff
 * with the man macros (man(7)).
 */
import type { Command, Help } from 'commander'
import { grouped } from '../../trials/grouped.ts'

interface ManPage {
  readonly version: string
  readonly exitStatus: string
}

/** @param program with all its commands */
export function manPage(program: Command, { version, exitStatus }: ManPage): string {
  const help = program.createHelp()
  const commands = help.visibleCommands(program).filter((command) => command.name() !== 'help')
  const lines = [
    `.TH TUNE 1 "" "tune ${version}" "User Commands"`,
    '.SH NAME',
    `tune \\- ${lowered(plain(program.description()))}`,
    '.SH SYNOPSIS',
    '.B tune',
    plain('[options]'),
    '.br',
    '.B tune',
    plain('COMMAND [options] [arguments]'),
    '.SH DESCRIPTION',
    plain(program.description()),
    'Without a command it runs an experiment and recommends.',
    '.SH OPTIONS',
    ...optionsOf(program, help),
    '.SH COMMANDS',
    ...commands.flatMap((command) => [
      `.SS ${quoted(`tune ${command.name()} ${command.usage().replace(/^\[options\] ?/, '')}`.trim())}`,
      plain(command.description()),
      ...command.registeredArguments.flatMap((one) =>
        one.description === '' ? [] : item(one.name(), one.description),
      ),
      ...optionsOf(command, help),
    ]),
    '.SH EXIT STATUS',
    plain(exitStatus),
    '.SH ENVIRONMENT',
    ...item(
      'TUNE_NAME',
      'every flag with at most one value, in capitals with _ for -: TUNE_SLO, TUNE_MAX_TRIALS, TUNE_NO_CONFIRM=1; flags override them',
    ),
    ...item('NO_COLOR, CI', 'no colours; plain lines instead of the live screen'),
    '.SH FILES',
    ...item(
      '.tune/tune.db',
      'experiments and their trials, unless --db sets another file; logs of predictors are in the same folder',
    ),
    ...item('tune-results/', 'recommendations, unless --out sets another folder'),
  ]
  return `${lines.join('\n')}\n`
}

/** Under the headings of `--help`. */
function optionsOf(command: Command, help: Help): string[] {
  const groups = grouped(
    help.visibleOptions(command),
    ({ helpGroupHeading = '' }) => helpGroupHeading,
  )
  return [...groups].flatMap(([heading, options]) => [
    ...(heading === '' ? [] : ['.PP', `.B ${quoted(heading)}`]),
    ...options.flatMap((option) => item(option.flags, help.optionDescription(option))),
  ])
}

const item = (term: string, what: string): string[] => ['.TP', `.B ${quoted(term)}`, plain(what)]

/** An argument of a macro. */
const quoted = (text: string): string => `"${escaped(text).replaceAll('"', '\\(dq')}"`

/** A text line: one that begins with a dot or an apostrophe would be a request. */
const plain = (text: string): string => escaped(text).replaceAll(/^(?=[.'])/gm, '\\&')

const escaped = (text: string): string =>
  text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('\u2019', "'")

const lowered = (text: string): string =>
  `${text.charAt(0).toLowerCase()}${text.slice(1)}`.replace(/\.$/, '')
