import { Command } from 'commander'
import { expect, test } from 'vitest'
import { createProgram, loadCommands } from '../tune-program.ts'
import { renderManPage } from './man-page.ts'

const registers = await loadCommands()
const told = { version: '1.2.3', exitStatus: '0 well; 1 not' }

test('every command that help shows is there, with every flag under its heading', () => {
  const program = createProgram(registers)
  const page = renderManPage(program, told)
  const [, commands] = page.split('.SH COMMANDS\n') as [string, string]
  for (const command of program.commands) {
    const shown = commands.includes(`.SS "tune ${command.name()}`)
    expect([command.name(), shown]).toEqual([
      command.name(),
      !['help', 'load'].includes(command.name()),
    ])
    if (shown)
      for (const { long, hidden } of command.options)
        if (!hidden) expect(page).toContain(long!.replaceAll('-', '\\-'))
  }
  expect(page).toContain('.B "Model and goal:"\n.TP\n.B "\\-f, \\-\\-file <path>"\n')
  expect(page).toMatch(/^\.TH TUNE 1 "" "tune 1\.2\.3"/)
  expect(page).toContain('.SH EXIT STATUS\n0 well; 1 not\n')
})

test('no text is taken for a request of roff, nor its backslashes for escapes', () => {
  const program = new Command('tune').description("'quoted' \\n")
  program.command('x').description('.hidden file').option('--say <"a">', 'so "much"')
  const page = renderManPage(program, told)
  expect(page).toContain("\n\\&'quoted' \\en\n")
  expect(page).toContain('\n\\&.hidden file\n')
  expect(page).toContain('.B "\\-\\-say <\\(dqa\\(dq>"\nso "much"\n')
})
