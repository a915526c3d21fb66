/** Holds a page against what its commands printed and wrote. */
import { expect } from 'vitest'
import { verdictHeadings } from '../../../reports/recommendation/verdict-lines.ts'
import { findDifference, findUnknownLines } from './output.ts'
import type { Command, Step } from './page.ts'
import { isSearch, type PageRunner, type RunOutcome } from './page-runner.ts'
import type { SharedRuns } from './shared-runs.ts'

/** Width of the terminal that a page shows; that of a pipe where one of its lines is longer. */
const usualColumns = 100
const pipedColumns = 400

export function chooseColumns(steps: readonly Step[]): number {
  const lines = steps.flatMap((step) =>
    step.kind === 'command' ? (step.command.output?.text.split('\n') ?? []) : [],
  )
  return lines.some(({ length }) => length > usualColumns) ? pipedColumns : usualColumns
}

/** Whether the page shows what the first of these steps, or one up to the next search, found. */
export function showsResult([first, ...rest]: readonly Step[]): boolean {
  const next = rest.findIndex((step) => step.kind === 'command' && isSearch(step.command))
  return [first, ...(next < 0 ? rest : rest.slice(0, next))].some(
    (step) =>
      step?.kind === 'written' || (step?.kind === 'command' && step.command.output !== undefined),
  )
}

/** Writes a file of the page, or compares one that its commands wrote. */
export function handleFile(step: Exclude<Step, { kind: 'command' }>, runner: PageRunner): void {
  if (step.kind === 'file') runner.write(step.name, step.text)
  else expect(findDifference(step.text, runner.read(step.name)), step.name).toBeUndefined()
}

/** Fails where a command did not end as the page says, or printed something else. */
export async function expectAsShown(
  { line, output }: Command,
  { code, expected, stdout, stderr, isOfRealRun }: RunOutcome,
  shared: SharedRuns,
): Promise<void> {
  const printed = `${line} printed:\n${stderr}${stdout}`
  expect(expected, printed).toContain(code)
  expect(stdout + stderr).not.toBe('')
  if (output === undefined) return
  if (isOfRealRun) {
    const headings = Object.values(verdictHeadings).map((heading) => `${heading}:`)
    const all = [stderr, stdout, await shared.knownOutput(), ...headings].join('\n')
    expect(findUnknownLines(output.text, all), printed).toEqual([])
  } else {
    const orders = [stderr + stdout, stdout + stderr]
    const differences = orders.map((all) => findDifference(output.text, all))
    expect(differences, printed).toContain(undefined)
  }
}
