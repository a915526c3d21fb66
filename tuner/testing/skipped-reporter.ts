import { relative } from 'node:path'
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'

/**
 * One line at the end for each test that was skipped, or for the suite that was skipped whole: its
 * name says what is missing. And one for each that passed only when it was tried again.
 */
export class SkippedReporter implements Reporter {
  readonly #write: (line: string) => void

  constructor(write: (line: string) => void = console.log) {
    this.#write = write
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // Tests that a filter by name or line leaves out are not missing anything.
    if (modules.some(({ project }) => project.config.testNamePattern !== undefined)) return
    const lines = new Map<string, number>()
    for (const module of modules)
      for (const test of module.children.allTests('skipped')) {
        const what = lineOf(test)
        lines.set(what, (lines.get(what) ?? 0) + 1)
      }
    for (const module of modules)
      for (const test of module.children.allTests('passed')) {
        const { retryCount = 0 } = test.diagnostic() ?? {}
        if (retryCount > 0) this.#write(`passed when tried again: ${lineOf(test)}`)
      }
    for (const [what, tests] of lines)
      this.#write(`skipped, ${tests === 1 ? '1 test' : `${tests} tests`}: ${what}`)
  }
}

/** The outermost suite that is skipped, else the test, with the note it gave. */
function lineOf(test: TestCase): string {
  const suites: TestSuite[] = []
  for (let at = test.parent; at.type === 'suite'; at = at.parent) suites.unshift(at)
  const whole = suites.find((suite) => suite.options.mode === 'skip') ?? test
  const result = test.result()
  const note = result.state === 'skipped' && result.note ? ` (${result.note})` : ''
  return `${relative(test.project.config.root, test.module.moduleId)}: ${whole.fullName}${note}`
}
