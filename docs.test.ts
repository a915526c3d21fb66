/**
 * Every command that the documentation shows is run, in the order in which it stands there; runs
 * that pages repeat word for word, once. Those of docs/paths.md: tuner/paths.test.ts.
 */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { exitCodeOf } from './tuner/exit-codes.ts'
import { CliBox, type CliResult } from './tuner/testing/run-cli.ts'
import { WarmCli } from './tuner/testing/warm-cli.ts'

const root = fileURLToPath(new URL('.', import.meta.url))
const pages = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((f) => f.endsWith('.md'))
    .map((f) => join('docs', f)),
]

/**
 * One short trial: that a command works is tested here, what it finds elsewhere, so that another
 * file's tests may have a core meanwhile. A trial that the machine disturbed is not made again, for
 * by then the time is over: on a machine that is always busy each would be.
 */
const brief = {
  TUNE_MAX_TRIALS: '1',
  TUNE_TRIAL_TIME: '1s',
  TUNE_NO_CONFIRM: '1',
  TUNE_TIME_LIMIT: '3s',
}

const mainJob = 'npm ci && npm start -- --model bert --slo 50ms'

/**
 * The searches that load the built-in predictor for real: the README's first command, and one that
 * asks it by gRPC. tuner/main-job.test.ts loads it on the devices that others name, so that those
 * search in virtual time here.
 */
const loads = (page: string, command: string) => command === mainJob || page === 'docs/protocols.md'
const isSearch = (words: readonly string[]) =>
  /^(--model|-f)$/.test(words[0]!) && !words.includes('--dry-run')

/** Set-up itself: what CI runs before it comes here. */
const setUp = 'npm ci && npm run check'

/** Lines of the ```sh blocks of a page, comments cut off. */
const commandsOf = (page: string): string[] =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/```sh\n([\s\S]*?)```/g)]
    .flatMap(([, block]) => block!.split('\n'))
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('#') && line !== setUp)

/** Words of a command, single quotes honoured. */
const wordsOf = (command: string): string[] =>
  [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!)

/** The files of their own that the pages' readers are taken to have. */
const files = join(root, 'docs', 'files')

/**
 * Runs by their words. One that begins with the model and names no file of its page depends on its
 * words alone, so that its result holds wherever it is shown; what it left (`kept`) is there for
 * the commands that follow it.
 */
const runs = new Map<string, { readonly result: CliResult; readonly kept: CliBox }>()
const left = ['.tune', 'tune-results']
afterAll(() => {
  for (const { kept } of runs.values()) kept.dispose()
})

/** For what loads nothing, or hardly. */
const tune = new WarmCli()
afterAll(() => tune.end())

async function runOnce(
  words: readonly string[],
  box: CliBox,
  inVirtualTime: boolean,
): Promise<CliResult> {
  const env = { ...brief, ...(inVirtualTime && { TUNE_BACKEND: 'simulated' }) }
  const loadsNothing =
    inVirtualTime || words.some((word) => readers.includes(word) || certain.includes(word))
  const run = () => (loadsNothing ? tune.run(box, words, env) : box.run(words, env))
  if (words[0] !== '--model' || words.some((word) => existsSync(join(box.folder, word))))
    return run()
  const id = JSON.stringify([words, env])
  const before = runs.get(id)
  if (before) {
    if (existsSync(join(box.folder, '.tune'))) copyLeft(before.kept, box, ['tune-results'])
    else copyLeft(before.kept, box)
    return before.result
  }
  const result = await run()
  const kept = new CliBox()
  copyLeft(box, kept)
  runs.set(id, { result, kept })
  return result
}

function copyLeft(from: CliBox, to: CliBox, names = left): void {
  for (const name of names.filter((n) => existsSync(join(from.folder, n))))
    cpSync(join(from.folder, name), join(to.folder, name), { recursive: true })
}

/** Commands of which no measurement decides how they end. */
const certain = [
  'calibrate',
  'completion',
  'config',
  'doctor',
  'estimate',
  'fleet',
  'import',
  'list',
  'predictor',
  'replay',
  'store',
  '--dry-run',
]

/**
 * Commands that read what was found: each page's stand after its own simulated search of a named
 * server, else after the same search in virtual time, whose end is known.
 */
const readers = ['show', 'compare', 'ci', 'plan', 'spec', 'report', 'watch', 'annotate']
const known = [
  '--model',
  'bert',
  '--slo',
  '50ms',
  '--backend',
  'simulated',
  '--gpus',
  'T4',
  '--max-trials',
  '4',
  '--seed',
  '1',
]
let searched: CliBox | undefined
afterAll(() => searched?.dispose())

/** Leaves what that search left in the place of whatever was found there. */
async function leaveKnown(box: CliBox): Promise<void> {
  if (searched === undefined) {
    searched = new CliBox()
    expect((await tune.run(searched, known)).code).toBe(0)
  }
  for (const name of left) rmSync(join(box.folder, name), { recursive: true, force: true })
  copyLeft(searched, box)
}

/**
 * How a command ends. A real trial may well miss a tight SLO, or not be confirmed: a search says so
 * by the code of its own conclusion.
 */
function codeOf(words: readonly string[], box: CliBox, said: string): number {
  if (readers.includes(words[0]!) || words.some((word) => certain.includes(word))) return 0
  const [file] = /tune-results\/[^\s"/]+\/recommendation\.json/.exec(said) ?? []
  if (file === undefined) return expect.unreachable(`no results were written: ${said}`)
  return exitCodeOf(JSON.parse(readFileSync(join(box.folder, file), 'utf8')))
}

describe.each(pages.filter((page) => page !== 'docs/paths.md' && commandsOf(page).length > 0))(
  '%s',
  (page) => {
    const box = new CliBox()
    cpSync(join(root, 'examples'), join(box.folder, 'examples'), { recursive: true })
    cpSync(files, box.folder, { recursive: true })
    // A page's first YAML is its reader's experiment.yaml.
    const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(readFileSync(join(root, page), 'utf8')) ?? []
    if (yaml) writeFileSync(join(box.folder, 'experiment.yaml'), yaml)
    afterAll(() => box.dispose())

    let knowing = false
    for (const command of commandsOf(page)) {
      test(command, async () => {
        const [line = '', output] = command
          .replace(/^npm ci && npm start -- /, 'tune ')
          .split(' > ')
        const words = wordsOf(line)
        expect(words[0], 'only tune commands stand in sh blocks').toBe('tune')
        if (isSearch(words.slice(1)))
          knowing = words.includes('simulated') && words.includes('--server')
        if (readers.includes(words[1]!) && !knowing) {
          await leaveKnown(box)
          knowing = true
        }
        const { code, stdout, stderr } = await runOnce(
          words.slice(1),
          box,
          isSearch(words.slice(1)) && !loads(page, command),
        )
        // The run that the page resumes was not interrupted here.
        const finished = code === 2 && words[1] === 'resume' && stderr.includes('is finished')
        if (!finished)
          expect(code, `${stdout}\n${stderr}`).toBe(codeOf(words.slice(1), box, stdout + stderr))
        expect(stdout + stderr).not.toBe('')
        if (output !== undefined) writeFileSync(join(box.folder, output), stdout)
      })
    }
  },
)

test('the README opens with what it is for, then set-up with the main job, then set-up with the tests', () => {
  const [first, second] = [
    ...readFileSync(join(root, 'README.md'), 'utf8').matchAll(/```sh\n([\s\S]*?)```/g),
  ].map(([, block]) => block!.trim())
  expect(first).toBe(mainJob)
  expect(second).toBe(setUp)
})

test('every link of the documentation leads to a file', () => {
  const broken = pages.flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!https?:)([^)#\s]+)/g)]
      .map(([, target]) => target!)
      .filter((target) => {
        try {
          readFileSync(join(root, page, '..', target))
          return false
        } catch {
          return true
        }
      })
      .map((target) => `${page}: ${target}`),
  )
  expect(broken).toEqual([])
})
