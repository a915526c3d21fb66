import { expect, test } from 'vitest'
import { createProgram, exitCodesText, loadCommands } from '../tune-program.ts'
import { commandGroups, formatShortHelp, otherCommands } from './short-help.ts'

const program = createProgram(await loadCommands())
const lines = formatShortHelp(exitCodesText).trimEnd().split('\n')

test('fits on one screen of 80 columns', () => {
  expect(lines.length).toBeLessThanOrEqual(45)
  for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(80)
})

test('names every command exactly once', () => {
  const named = [
    ...commandGroups.flatMap(({ commands }) => Object.keys(commands)),
    ...otherCommands,
  ]
  const visible = program
    .createHelp()
    .visibleCommands(program)
    .map((command) => command.name())
    .filter((name) => name !== 'help')
  expect(named.sort()).toEqual(visible.sort())
})

test('shows only options that exist', () => {
  const known = program.options.map(({ flags }) => flags)
  const shown = lines
    .map((line) => /^ {2}((?:-\w, )?--[a-z-]+ <\w+>) {2,}/.exec(line)?.[1])
    .filter((flags) => flags !== undefined)
  expect(shown.length).toBe(10)
  expect(known).toEqual(expect.arrayContaining(shown))
})
