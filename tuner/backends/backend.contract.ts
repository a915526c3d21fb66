import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Phase } from '../../profiler/model/load.ts'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Configuration } from '../../search/types.ts'
import type { Predictor } from '../../trials/types.ts'
import type { Backend, MeasureTask } from './backend.ts'

/** A backend, and a configuration of its that serves: one request at a time, or none that waits. */
export interface OpenBackend {
  readonly backend: Backend
  readonly configuration: Configuration
}

/** What a backend brings to the suite that every backend passes. */
export interface BackendSubject {
  /**
   * Its SLO is one that a healthy server keeps at low load; a trial has a second under load, a
   * confirmation too.
   */
  open(): Promise<OpenBackend>
  /** Its predictor ends after some requests. A backend whose predictors do not says why. */
  readonly openMortal: (() => Promise<OpenBackend>) | { readonly skip: string }
  /** What is left once everything is closed, in words. */
  leftovers(): readonly string[] | Promise<readonly string[]>
}

/** A machine with other work may spoil every window: nothing is known then. */
export const skipIfSpoilt = ({ outcome }: Measurement, skip: (note: string) => void) => {
  if (outcome === 'host-interference' || outcome === 'generator-limit')
    skip(`${outcome}: the machine spoilt every window`)
}

export const backendContract = (name: string, subject: BackendSubject): void => {
  describe(`${name} is a backend`, () => {
    const never = new AbortController().signal
    const done: (() => Promise<void>)[] = []
    let backend: Backend
    let predictor: Predictor
    let trial: Measurement
    let steps: { point: LoadPoint; phase: Phase }[] = []

    const measure = (task: MeasureTask, number: number, signal = never): Promise<Measurement> => {
      steps = []
      return backend.measure(
        predictor,
        task,
        { number, onStep: (point, phase) => steps.push({ point, phase }) },
        signal,
      )
    }
    beforeAll(async () => {
      const opened = await subject.open()
      backend = opened.backend
      done.push(() => backend.close())
      predictor = await backend.launcher.launch(opened.configuration, 1, never)
      done.unshift(() => predictor.stop())
      trial = await measure({ kind: 'trial' }, 1)
    })
    afterAll(async () => {
      for (const end of done) await end()
      // Once more: closing is idempotent.
      await backend?.close()
      expect(await subject.leftovers()).toEqual([])
    })
    const seedsOf = ({ points }: Measurement) =>
      new Set(points.flatMap(({ load }) => (load.kind === 'open' ? [`${load.seed}`] : [])))

    test('a trial is a capacity inside its interval, no more than the server serves, and every load of it was told', ({
      skip,
    }) => {
      skipIfSpoilt(trial, skip)
      expect(trial.capacityRps).toBeGreaterThan(0)
      const [low, high] = trial.capacityCi90Rps
      expect(low).toBeLessThanOrEqual(trial.capacityRps)
      expect(high).toBeGreaterThanOrEqual(trial.capacityRps)
      expect(trial.capacityRps).toBeLessThan(1.2 * trial.saturationRps)
      expect(steps.length).toBeGreaterThan(2)
      for (const { point, phase } of steps) {
        expect(phase).not.toBe('')
        expect(point.requests).toBeGreaterThan(0)
      }
      expect(trial.points.length).toBeLessThanOrEqual(steps.length)
    })

    test('a confirmation holds at a rate well within the capacity; a verification too, on arrivals of its own', async ({
      skip,
    }) => {
      const rateRps = 0.2 * trial.saturationRps
      const confirmed = await measure({ kind: 'confirmation', rateRps }, 2)
      skipIfSpoilt(confirmed, skip)
      expect(confirmed).toMatchObject({ capacityRps: rateRps, outcome: 'converged' })
      const verified = await measure({ kind: 'verification', rateRps }, 3)
      skipIfSpoilt(verified, skip)
      expect(verified).toMatchObject({ capacityRps: rateRps, outcome: 'converged' })
      for (const seed of seedsOf(verified)) expect(seedsOf(confirmed)).not.toContain(seed)
    })

    test('a confirmation does not hold at a rate that no server of its kind reaches', async () => {
      // Of a machine that was busy during the trial, four times what it did then is not enough.
      const rateRps = Math.max(4 * trial.saturationRps, 4000)
      // Below nine tenths of it there is something else to try: what is tried then is tested in
      // profiler/capacity.
      const { capacityRps } = await measure(
        { kind: 'confirmation', rateRps, minRps: 0.9 * rateRps },
        4,
      )
      expect(capacityRps).toBeLessThan(0.9 * rateRps)
    })

    test('an interrupt is its own reason, and the next task is done as ever', async ({ skip }) => {
      const reason = new Error('Ctrl-C')
      await expect(measure({ kind: 'trial' }, 5, AbortSignal.abort(reason))).rejects.toBe(reason)
      const verified = await measure(
        { kind: 'verification', rateRps: 0.2 * trial.saturationRps },
        6,
      )
      skipIfSpoilt(verified, skip)
      expect(verified.capacityRps).toBeGreaterThan(0)
    })

    const { openMortal } = subject
    if (typeof openMortal !== 'function')
      test.skip(`tells of a server that ends: ${openMortal.skip}`, () => {})
    else
      test('a server that ends under load is what was measured', async () => {
        const { backend: other, configuration } = await openMortal()
        try {
          const mortal = await other.launcher.launch(configuration, 1, never)
          try {
            const measured = await other.measure(
              mortal,
              { kind: 'trial' },
              { number: 1, onStep: () => {} },
              never,
            )
            expect(measured).toMatchObject({ outcome: 'server-died', capacityRps: 0 })
          } finally {
            await mortal.stop()
          }
        } finally {
          await other.close()
        }
      })
  })
}
