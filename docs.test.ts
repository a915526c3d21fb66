/**
 * The documentation does what it says. Every command of its ```sh blocks is run, in the page's
 * order and in one folder a page, and its output is compared; every link leads somewhere.
 * `tuner/testing/documentation/` reads, runs and compares. What starts servers of others is
 * followed by tuner/paths.test.ts.
 *
 * UPDATE_DOCS=1 puts what a command printed in the place of an output that says TODO-OUTPUT.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { isJourney } from './tuner/testing/documentation/journeys.ts'
import { findBrokenLinks, readLinks } from './tuner/testing/documentation/links.ts'
import {
  type Output,
  readSteps,
  setUpAndCheck,
  setUpAndTune,
} from './tuner/testing/documentation/page.ts'
import { PageRunner } from './tuner/testing/documentation/page-runner.ts'
import { SharedRuns } from './tuner/testing/documentation/shared-runs.ts'
import {
  chooseColumns,
  expectAsShown,
  handleFile,
  showsResult,
} from './tuner/testing/documentation/shown.ts'

const root = fileURLToPath(new URL('.', import.meta.url))
const read = (page: string) => readFileSync(join(root, page), 'utf8')
const findFiles = (folder: string, ending: RegExp) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => ending.test(file) && !file.includes('node_modules'))
    .map((file) => join(folder, file))
    .sort()

const allDocs = findFiles('docs', /\.md$/)
const userPages = ['README.md', ...allDocs.filter((page) => !page.startsWith('docs/research/'))]

const shared = new SharedRuns()
afterAll(() => shared.end())

const runPages = userPages
  .map((page) => ({
    page,
    steps: readSteps(read(page)).filter(({ section }) => !isJourney(page, section)),
  }))
  .filter(({ steps }) => steps.some(({ kind }) => kind === 'command'))

describe.each(runPages)('$page', ({ page, steps }) => {
  const runner = new PageRunner(shared, { page, columns: chooseColumns(steps) })
  afterAll(() => runner.box.dispose())

  for (const [i, step] of steps.entries())
    if (step.kind === 'command')
      test(step.command.line, async () => {
        const outcome = await runner.run(step.command, showsResult(steps.slice(i)))
        const { output } = step.command
        if (output && /^TODO-OUTPUT$/m.test(output.text))
          toWrite.push({ page, output, printed: `${outcome.stderr}${outcome.stdout}` })
        else await expectAsShown(step.command, outcome, shared)
      })
    else test(`${step.name}, ${step.kind}`, () => handleFile(step, runner))
})

/** What was printed where a page says TODO-OUTPUT. */
const toWrite: {
  readonly page: string
  readonly output: Output
  readonly printed: string
}[] = []

test('no output is still to be written', () => {
  if (process.env.UPDATE_DOCS === '1') writeOutputs()
  else expect(toWrite.map(({ page, output }) => `${page}:${output.firstLine + 1}`)).toEqual([])
})

function writeOutputs(): void {
  // From the last to the first of a page, so that lines stay where they were.
  for (const { page, output, printed } of toWrite.reverse()) {
    const lines = read(page).split('\n')
    const [indent] = /^ */.exec(lines[output.firstLine]!)!
    const written = printed
      .trimEnd()
      .split('\n')
      .map((line) => (line === '' ? '' : indent + line))
    lines.splice(output.firstLine, output.text.split('\n').length - 1, ...written)
    writeFileSync(join(root, page), lines.join('\n'))
  }
}

test('the README sets up and tunes first, and has the command that sets up and passes the tests', () => {
  const blocks = [...read('README.md').matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) =>
    block!.trim(),
  )
  expect(blocks[0]).toBe(`${setUpAndTune} --model bert --slo 50ms`)
  expect(blocks).toContain(setUpAndCheck)
})

test('every link of a page leads to a file, and to a heading of it', () => {
  const pages = [
    ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...allDocs],
    ...['examples', 'deploy', 'search', 'trials'].flatMap((folder) => findFiles(folder, /\.md$/)),
  ]
  expect(pages.flatMap((page) => findBrokenLinks(root, page))).toEqual([])
})

test('tutorials lead to no page of research', () => {
  const tutorials = allDocs.filter((page) => page.startsWith('docs/tutorials/'))
  const links = tutorials.flatMap((page) => readLinks(root, page))
  expect(links.filter(({ target }) => target.startsWith('docs/research/'))).toEqual([])
})

test('the index names every page', () => {
  const linked = new Set(readLinks(root, 'docs/README.md').map(({ target }) => target))
  const others = allDocs.filter((page) => page !== 'docs/README.md')
  expect(others.filter((page) => !linked.has(page))).toEqual([])
})

test('pages that sources name are there', () => {
  const folders = ['search', 'profiler', 'trials', 'reports', 'tuner', 'examples', 'deploy']
  const missing = folders
    .flatMap((folder) => findFiles(folder, /\.(tsx?|mjs|ya?ml)$/))
    .flatMap((file) =>
      [
        ...read(file).matchAll(
          /(?<![\w/-])docs\/(?:(?:tutorials|how-to|reference|explanation|research)\/)?[\w-]+\.(?:md|json)\b/g,
        ),
      ].map(([page]) => ({ file, page })),
    )
    .filter(({ page }) => !allDocs.includes(page) && !existsSync(join(root, page)))
  expect(missing).toEqual([])
})
