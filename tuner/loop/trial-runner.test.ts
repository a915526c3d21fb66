import { expect, test } from 'vitest'
import type { Measurement } from '../../profiler/types.ts'
import type { Launcher, PredictorDeath } from '../../trials/types.ts'
import { runTrial } from './trial-runner.ts'

test('a death is a death, also where the load sees it before the launcher hears of it', async () => {
  let die = (_: PredictorDeath) => {}
  const died = new Promise<PredictorDeath>((resolve) => {
    die = resolve
  })
  const predictor = { died, usage: async () => ({}), stop: async () => {}, logTail: () => '' }
  const launcher = { launch: async () => predictor } as unknown as Launcher
  const measure = async () => {
    setTimeout(() => die({ what: 'the predictor ended: exit code 9', outOfMemory: false }), 20)
    return { outcome: 'server-died', capacityRps: 0 } as Measurement
  }
  const hooks = { now: () => 0, onReady: () => {}, onStep: () => {} }
  const trial = await runTrial(
    { launcher, measure },
    { kind: 'trial' },
    { number: 1, configuration: {}, why: '', attempt: 1 },
    hooks,
    new AbortController().signal,
  )
  expect(trial).toMatchObject({ state: 'failed', error: expect.stringContaining('exit code 9') })
})
