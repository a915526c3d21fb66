import { afterEach, describe, expect, test } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import { InfeasibleError, type InfeasibleReason, type Launcher, type Predictor } from '../types.ts'

/** What one launcher brings to the suite that every launcher passes. */
export interface LauncherSubject {
  create(): Launcher | Promise<Launcher>
  /** A configuration that serves. */
  readonly good: Configuration
  /**
   * Another one; it must be possible to run both at once. A launcher of which there is only one
   * predictor says so.
   */
  readonly other: Configuration | Skip
  /** A configuration that cannot serve, and why. A launcher that cannot tell any says so. */
  readonly infeasible:
    | { readonly configuration: Configuration; readonly reason: InfeasibleReason }
    | Skip
  /**
   * Everything that launches have left on the machine or the cluster once the launcher is closed,
   * in words; [] when it is clean.
   */
  leftovers(): readonly string[] | Promise<readonly string[]>
  /**
   * Moments, in ms from the call, at which a launch is aborted. They should cover all its phases.
   */
  readonly abortAfterMs: readonly number[]
}

/** Why something cannot be asked of a launcher. */
export interface Skip {
  readonly skip: string
}
const isSkip = (value: object): value is Skip => Object.keys(value).length === 1 && 'skip' in value

export const launcherContract = (name: string, subject: LauncherSubject): void => {
  describe(`${name} is a launcher`, () => {
    const never = new AbortController().signal
    let running: Predictor[] = []
    const created: Launcher[] = []
    const create = async () => {
      const launcher = await subject.create()
      created.push(launcher)
      return launcher
    }
    /** What may be kept between trials ends here. */
    const closeAll = async () =>
      void (await Promise.all(created.splice(0).map((launcher) => launcher.close?.())))
    const launch = async (
      launcher: Launcher,
      configuration: Configuration,
      trial: number,
      signal = never,
    ) => {
      const predictor = await launcher.launch(configuration, trial, signal)
      running.push(predictor)
      return predictor
    }
    afterEach(async () => {
      await Promise.all(running.map((predictor) => predictor.stop()))
      running = []
      await closeAll()
      expect(await subject.leftovers()).toEqual([])
    })

    // One launch for all that holds of a predictor from start to stop: a launch takes seconds.
    test('launches a predictor that serves, reports its usage, survives a sweep, stops more than once, and starts again under the same number', async () => {
      const launcher = await create()
      await launcher.sweep()
      const predictor = await launch(launcher, subject.good, 1)
      let died = false
      predictor.died?.then(() => {
        died = true
      })
      expect(predictor.isolation).not.toBe('')
      expect(['measured', 'emulated', 'simulated']).toContain(predictor.provenance)
      await expectGoodAnswer(predictor)
      const usage = await predictor.usage()
      for (const value of Object.values(usage))
        if (value !== undefined) expect(value).toBeGreaterThanOrEqual(0)
      await launcher.sweep()
      await expectGoodAnswer(predictor)
      await Promise.all([predictor.stop(), predictor.stop()])
      await predictor.stop()
      await new Promise((resolve) => setImmediate(resolve))
      expect(died).toBe(false)
      await expectGoodAnswer(await launch(launcher, subject.good, 1))
    })

    const { other } = subject
    if (isSkip(other)) test.skip(`runs two predictors at once: ${other.skip}`, () => {})
    else
      test('runs two predictors at once, apart from each other', async () => {
        const launcher = await create()
        const [first, second] = await Promise.all([
          launch(launcher, subject.good, 1),
          launch(launcher, other, 2),
        ])
        if (first.target.kind === 'http' && second.target.kind === 'http')
          expect(first.target.url).not.toBe(second.target.url)
        await first.stop()
        await expectGoodAnswer(second)
      })

    const { infeasible } = subject
    if (isSkip(infeasible)) test.skip(`tells what cannot serve: ${infeasible.skip}`, () => {})
    else
      test('tells what cannot serve, and why, and leaves nothing', async () => {
        const error = await rejection((await create()).launch(infeasible.configuration, 1, never))
        expect(error).toBeInstanceOf(InfeasibleError)
        expect(error).toMatchObject({ reason: infeasible.reason })
        expect((error as Error).message.length).toBeGreaterThan(10)
      })

    test('rejects with the reason of a signal that has aborted, and starts nothing', async () => {
      const reason = new Error('interrupted')
      expect(
        await rejection((await create()).launch(subject.good, 1, AbortSignal.abort(reason))),
      ).toBe(reason)
    })

    test.each(subject.abortAfterMs)('leaves nothing when aborted after %d ms', async (afterMs) => {
      const launcher = await create()
      const abort = new AbortController()
      const reason = new Error('interrupted')
      const timer = setTimeout(() => abort.abort(reason), afterMs)
      try {
        // A launch that was quicker than the abort is stopped like any other.
        await launch(launcher, subject.good, 1, abort.signal)
      } catch (error) {
        expect(error).toBe(reason)
        expect(await subject.leftovers()).toEqual([])
      } finally {
        clearTimeout(timer)
      }
    })
  })
}

const rejection = async (launch: Promise<Predictor>): Promise<unknown> => {
  const predictor = await launch.catch((error: unknown) => ({ error }))
  if ('error' in predictor) return predictor.error
  await predictor.stop()
  throw new Error('it launched')
}

const expectGoodAnswer = async ({ target }: Predictor): Promise<void> => {
  if (target.kind === 'virtual') {
    const run = target.server.play({ kind: 'closed', connections: 1, durationS: 1 })
    expect(run.latencyMs.length).toBeGreaterThan(0)
    expect(run.latencyMs.some((latency) => latency > 0)).toBe(true)
    return
  }
  const [body] = target.bodies
  const response = await fetch(new URL(target.path, target.url), {
    method: 'POST',
    headers: { 'content-type': body!.contentType, ...target.headers },
    body: Buffer.from(body!.body),
  })
  expect(response.status).toBe(200)
  const text = await response.text()
  if (target.expect !== undefined) expect(text).toContain(target.expect)
}
