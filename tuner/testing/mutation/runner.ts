/**
 * Vitest's runner with a twist: each test, once it has passed, runs again with every mutant on that
 * it reaches and that lives.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import type { RunnerTestCase, RunnerTestFile } from 'vitest'
import { TestRunner } from 'vitest'
import { type LogLine, type Session, sessionVariable } from './session.ts'
import { Switch } from './switch.ts'

/**
 * A mutant may be passed this many times as often as the code without it, and a test take this many
 * times as long.
 */
const PATIENCE = 50

/** One session to a worker: with isolation off, all test files share it. */
const session: Session = JSON.parse(readFileSync(process.env[sessionVariable]!, 'utf8'))
const log = (line: LogLine) => appendFileSync(session.log, `${JSON.stringify(line)}\n`)
globalThis.mutation = new Switch(session.count)
log({ type: 'worker', pid: process.pid })
if (session.alone !== undefined) globalThis.mutation.turnOn(session.alone)
const pending = new Set(session.pending)
const tried = new Set(session.tried)
const spentS = new Map(Object.entries(session.spentS).map(([number, s]) => [Number(number), s]))
const numbersIn = (reached: Uint32Array): number[] =>
  Array.from(reached.keys()).filter((number) => reached[number]! > 0)

/** Computing time so far: what a test costs, however busy the machine is. */
function cpuS(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

export default class MutationRunner extends TestRunner {
  override onCollectStart(file: RunnerTestFile): void {
    // A counterexample is enough, it need not be a small one.
    fc.configureGlobal({ ...fc.readConfigureGlobal(), endOnFailure: true })
    super.onCollectStart(file)
  }

  async runTask(test: RunnerTestCase): Promise<void> {
    const run = TestRunner.getTestFn(test)
    const name = `${test.file.name} > ${test.name} ${test.id}`
    if (session.alone !== undefined) return this.#alone(test, name, session.alone, run)
    const near = session.near[test.file.name] ?? []
    const isNear = (mutant: number) =>
      near.some(([least, most]) => least <= mutant && mutant <= most)
    const knownS = session.tooLongS[name] ?? 0
    if (![...pending].some(isNear) || knownS > session.longestS || knownS < session.shortestS)
      return
    const reach = (where: 'inside' | 'outside', mutants: readonly number[], seconds = 0) =>
      (mutants.length > 0 || seconds > 0) &&
      log({ type: 'reached', where, file: test.file.name, mutants, seconds })
    reach('outside', numbersIn(globalThis.mutation.takeReached()))
    const beganS = cpuS()
    try {
      await run()
    } catch (error) {
      globalThis.mutation.takeReached()
      return log({ type: 'failed', test: name, message: String(error) })
    }
    const first = numbersIn(globalThis.mutation.takeReached())
    const firstS = cpuS() - beganS
    if (firstS > session.longestS) return log({ type: 'too long', test: name, seconds: firstS })
    if (first.length === 0) return
    const startedS = cpuS()
    const again = await passes(test, run)
    const seconds = cpuS() - startedS
    const reached = globalThis.mutation.takeReached()
    // Reached the first time alone: remembered since, so that only a fresh worker passes it again.
    const once = (number: number) => !again || reached[number] === 0
    reach('outside', first.filter(once))
    reach('inside', again ? numbersIn(reached) : [], seconds)
    if (!again) return
    const asked = numbersIn(reached).filter(isNear)
    for (const mutant of asked) await this.#try(test, name, run, mutant, reached[mutant]!, seconds)
    globalThis.mutation.takeReached()
  }

  async #try(
    test: RunnerTestCase,
    name: string,
    run: () => unknown,
    mutant: number,
    passed: number,
    usualS: number,
  ): Promise<void> {
    const spent = spentS.get(mutant) ?? 0
    if (
      !pending.has(mutant) ||
      tried.has(`${name}#${mutant}`) ||
      (spent > 0 && spent + usualS > session.budgetS)
    )
      return
    log({ type: 'begin', mutant, test: name })
    const startedS = cpuS()
    globalThis.mutation.turnOn(mutant, PATIENCE * passed + 1000)
    const survived = await passes(test, run, 1000 * (PATIENCE * usualS + 1))
    globalThis.mutation.turnOff()
    const seconds = cpuS() - startedS
    spentS.set(mutant, spent + seconds)
    if (!survived && !(await passes(test, run))) {
      log({ type: 'poisoned', mutant, test: name })
      // The command goes on with a fresh worker.
      process.kill(process.pid, 'SIGKILL')
    }
    if (!survived) pending.delete(mutant)
    log({ type: 'end', mutant, test: name, killed: !survived, seconds })
  }

  async #alone(
    test: RunnerTestCase,
    name: string,
    mutant: number,
    run: () => unknown,
  ): Promise<void> {
    log({ type: 'begin', mutant, test: name })
    const startedS = cpuS()
    const survived = await passes(test, run)
    log({ type: 'end', mutant, test: name, killed: !survived, seconds: cpuS() - startedS })
    if (!survived) throw new Error('killed')
  }
}

/**
 * Whether the test passes, within a time where one is given. Soft assertions count, and leave no
 * trace.
 */
async function passes(
  test: RunnerTestCase,
  run: () => unknown,
  withinMs?: number,
): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    if (withinMs !== undefined) timer = setTimeout(() => reject(new Error('late')), withinMs)
  })
  try {
    await Promise.race([run(), late])
    return (test.result?.errors ?? []).length === 0
  } catch {
    return false
  } finally {
    clearTimeout(timer)
    if (test.result) {
      test.result.state = 'run'
      test.result.errors = undefined
    }
  }
}
