/**
 * Runs the pure tests over mutated sources in a warm vitest, and tells what became of each mutant.
 */
import { setMaxListeners } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { BaseSequencer, createVitest, type TestSpecification, type Vitest } from 'vitest/node'
import { pure } from '../../../vitest.config.ts'
import { distances, type MutatedSource, type NumberedMutant } from './plan.ts'
import { schemata } from './schemata.ts'
import { type LogLine, type Session, sessionVariable } from './session.ts'

export type Fate = 'killed' | 'endless' | 'survived' | 'unreached'

/** A test that says nothing for this long is in an endless loop. */
const SILENCE_MS = 20_000

/**
 * Seconds that a test may take, round by round, the last one a mutant's budget: what a quick one
 * notices no slow one is asked about.
 */
const rounds = (budgetS: number): number[] =>
  [0.03, 0.3, budgetS].filter((seconds) => seconds <= budgetS)
const anyLength = { shortestS: 0, longestS: Number.MAX_VALUE }

export interface Options {
  /** Seconds of tests for each mutant; a test that takes longer is not asked. */
  readonly budgetS: number
  /** Tests that import a source over more steps than this are not asked. */
  readonly steps: number
  /** Only test files whose path holds one of these texts are asked; empty: all. */
  readonly tests: readonly string[]
}

/**
 * The fate of each chosen mutant by number; a mutant that is left out was reached by no test. A
 * test that fails without any mutant is named and left out.
 */
export async function fatesOf(
  root: string,
  sources: readonly MutatedSource[],
  chosen: readonly NumberedMutant[],
  { budgetS, steps, tests: asked }: Options,
): Promise<Map<number, Fate>> {
  // Vitest listens once more for each run.
  setMaxListeners(10_000)
  const folder = mkdtempSync(join(tmpdir(), 'mutation-'))
  const vitest = await openVitest(root, sources)
  try {
    const specifications = await vitest.globTestSpecifications()
    const files = specifications
      .map((s) => relative(root, s.moduleId))
      .filter((file) => asked.length === 0 || asked.some((text) => file.includes(text)))
    const near = distances(
      root,
      files,
      sources.map((s) => s.file),
    )
    const nearOf = (file: string) =>
      sources
        .filter((s) => (near.get(s.file)!.get(file) ?? Infinity) <= steps)
        .map((s) => [s.first, s.first + s.mutants.length - 1] as const)
    const count = Math.max(0, ...sources.flatMap((s) => s.mutants.map((m) => m.number)))
    const state = new Fates()
    const play = (
      order: readonly string[],
      session: Pick<Session, 'pending' | 'alone' | 'shortestS' | 'longestS'>,
    ) => {
      const byFile = new Map(specifications.map((s) => [relative(root, s.moduleId), s]))
      const wanted = order.map((file) => byFile.get(file)!)
      const settings: Session = {
        ...session,
        near: Object.fromEntries(order.map((file) => [file, nearOf(file)])),
        count,
        log: join(folder, 'log'),
        tried: state.tried,
        tooLongS: state.tooLongS,
        budgetS,
        spentS: state.spentS,
      }
      return playSession(vitest, folder, wanted, settings, state)
    }
    // Tests beside the sources first, then near ones, over all sources together.
    const folders = new Set(sources.map((s) => dirname(s.file)))
    const beside = (file: string) => (folders.has(dirname(file)) ? 0 : 1)
    const least = (file: string) =>
      Math.min(...sources.map((s) => near.get(s.file)!.get(file) ?? Infinity))
    const order = files
      .filter((file) => least(file) <= steps)
      .sort((a, b) => beside(a) - beside(b) || least(a) - least(b))
    const living = () => chosen.map((m) => m.number).filter((number) => !state.dead(number))
    for (const [i, longestS] of rounds(budgetS).entries()) {
      for (let whole = false; !whole; ) {
        whole = (
          await play(order, { pending: living(), shortestS: rounds(budgetS)[i - 1] ?? 0, longestS })
        ).whole
        if (!whole)
          console.error(
            `a worker went down with mutant ${state.tried.at(-1)}; ${living().length} live`,
          )
      }
    }
    const outside = chosen.filter(
      (m) => !state.dead(m.number) && state.outside.has(m.number) && !state.inside.has(m.number),
    )
    for (const [i, { number, file }] of outside.entries()) {
      if (i % 20 === 0)
        console.error(
          `${outside.length - i} mutants of constants and set-up left, each in a worker of its own`,
        )
      const tests = [...near.get(file)!].sort(([, a], [, b]) => a - b).map(([test]) => test)
      const { whole, passed } = await play(state.within(tests, budgetS / 2), {
        pending: [],
        alone: number,
        ...anyLength,
      })
      state.fates.set(number, !whole ? 'endless' : passed ? 'survived' : 'killed')
    }
    return state.fates
  } finally {
    await vitest.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

class Fates {
  readonly fates = new Map<number, Fate>()
  /** Reached outside of tests, or the first time alone. */
  readonly outside = new Set<number>()
  /** Reached within a test each time. */
  readonly inside = new Set<number>()
  readonly tried: string[] = []
  /** Seconds of tests that were left for a later round. */
  readonly tooLongS: Record<string, number> = {}
  /** Seconds of the tests of a file without any mutant. */
  readonly #secondsOf = new Map<string, number>()
  #open: number | undefined
  #poisoned = false
  readonly spentS: Record<number, number> = {}

  dead(number: number): boolean {
    const fate = this.fates.get(number)
    return fate === 'killed' || fate === 'endless'
  }

  /** A mutant is on. */
  get isTrying(): boolean {
    return this.#open !== undefined
  }

  /** The first of the test files that take so long together, and the one that passes it. */
  within(files: readonly string[], seconds: number): string[] {
    let sum = 0
    return files.filter((file) => {
      const before = sum
      sum += this.#secondsOf.get(file) ?? 0
      return before < seconds
    })
  }

  /**
   * The worker has died in the middle of a mutant, killed as endless or out of memory, or of what
   * one left behind. Whether it was so.
   */
  takeDeath(): boolean {
    if (this.#poisoned) {
      this.#poisoned = false
      return true
    }
    if (this.#open === undefined) return false
    this.fates.set(this.#open, 'endless')
    this.#open = undefined
    return true
  }

  take(line: LogLine): void {
    switch (line.type) {
      case 'failed':
        console.error(
          `left out, for it fails without any mutant: ${line.test}: ${line.message.slice(0, 300)}`,
        )
        return
      case 'reached':
        if (line.where === 'inside')
          this.#secondsOf.set(line.file, (this.#secondsOf.get(line.file) ?? 0) + line.seconds)
        for (const number of line.mutants) {
          if (!this.fates.has(number)) this.fates.set(number, 'survived')
          this[line.where].add(number)
        }
        return
      case 'too long':
        this.tooLongS[line.test] = line.seconds
        return
      case 'begin':
        this.#open = line.mutant
        this.tried.push(`${line.test}#${line.mutant}`)
        return
      case 'end':
        this.#open = undefined
        this.spentS[line.mutant] = (this.spentS[line.mutant] ?? 0) + line.seconds
        if (line.killed) this.fates.set(line.mutant, 'killed')
        return
      case 'poisoned':
        this.#open = undefined
        this.#poisoned = true
        this.inside.delete(line.mutant)
        this.outside.add(line.mutant)
    }
  }
}

/** A warm vitest for the pure tests, whose sources hold their mutants. */
const openVitest = (root: string, sources: readonly MutatedSource[]): Promise<Vitest> => {
  const byPath = new Map(sources.map((source) => [join(root, source.file), source]))
  return createVitest(
    'test',
    {
      config: false,
      root,
      watch: false,
      include: pure,
      setupFiles: ['./tuner/testing/property-runs.ts'],
      runner: './tuner/testing/mutation/runner.ts',
      isolate: false,
      maxWorkers: 1,
      testTimeout: 60_000,
      bail: 1,
      reporters: [{}],
      dangerouslyIgnoreUnhandledErrors: true,
      sequence: {
        sequencer: class extends BaseSequencer {
          override sort = async (files: TestSpecification[]) => files
        },
      },
    },
    {
      plugins: [
        {
          name: 'mutants',
          enforce: 'pre',
          transform: (code: string, id: string) => {
            const source = byPath.get(id)
            return source && { code: schemata(code, source.analysis, source.first), map: null }
          },
        },
      ],
    },
  )
}

/** Workers that may be lost without a mutant to blame. */
const mostLosses = 5
let losses = 0

/**
 * One run of the tests in a fresh worker. `whole`: it came to its end; else a mutant did not, and
 * was taken down.
 */
async function playSession(
  vitest: Vitest,
  folder: string,
  specifications: TestSpecification[],
  session: Session,
  state: Fates,
): Promise<{ whole: boolean; passed: boolean }> {
  const file = join(folder, 'session.json')
  process.env[sessionVariable] = file
  writeFileSync(file, JSON.stringify(session))
  writeFileSync(session.log, '')
  let read = 0
  let heardMs = performance.now()
  let worker: number | undefined
  let killed = false
  const listen = () => {
    const text = readFileSync(session.log, 'utf8')
    const whole = text.lastIndexOf('\n') + 1
    for (const line of text.slice(read, whole).split('\n').filter(Boolean)) {
      const said: LogLine = JSON.parse(line)
      if (said.type === 'worker') worker = said.pid
      state.take(said)
      heardMs = performance.now()
    }
    read = whole
  }
  const watch = setInterval(() => {
    listen()
    if (
      performance.now() - heardMs < SILENCE_MS ||
      worker === undefined ||
      !(state.isTrying || session.alone !== undefined)
    )
      return
    killed = true
    process.kill(worker, 'SIGKILL')
    worker = undefined
  }, 200)
  const result = await vitest
    .runTestSpecifications(specifications)
    .finally(() => clearInterval(watch))
  listen()
  const passed =
    result.unhandledErrors.length === 0 && result.testModules.every((module) => module.ok())
  if (session.alone !== undefined) return { whole: !killed, passed }
  if (passed) return { whole: true, passed }
  // A worker that dies for want of memory between two mutants leaves no test failed: once more,
  // then.
  const starved = result.testModules.every(
    (module) => [...module.children.allTests('failed')].length === 0,
  )
  if (!state.takeDeath() && !(starved && losses++ < mostLosses)) {
    const failures = result.testModules.flatMap((module) => [
      ...module.errors(),
      ...[...module.children.allTests('failed')].flatMap((t) => t.result().errors ?? []),
    ])
    const said = [...failures, ...result.unhandledErrors].map((error) => (error as Error).message)
    throw new Error(`the tests fail without any mutant: ${said.join('; ').slice(0, 2000)}`)
  }
  return { whole: false, passed }
}
