import { expect, test } from 'vitest'
import { computeCalibration, type RunScore } from './score.ts'

test('compares stated probabilities with observed frequencies by bins', () => {
  const run = (
    ...stated: readonly [probability: number, better: boolean, regret: number, true_: number][]
  ): RunScore => ({
    trialsToWithin: 1,
    regret: { 10: 0, 20: 0, 30: 0 },
    stated: stated.map(([probability, better, regret, trueRegret], i) => ({
      trial: i + 1,
      probability,
      better,
      regret,
      trueRegret,
    })),
    secondsPerSuggestion: 0,
  })
  const runs = [
    run([1, true, 0.9, 0.9], [0.6, true, 0.1, 0.3], [0.01, false, 0, 0]),
    run([0.7, false, 0.2, 0], [0.02, false, 0.01, 0]),
  ]
  const close = (value: number) => expect.closeTo(value, 12)
  expect(computeCalibration(runs)).toEqual([
    { upTo: 0.02, trials: 2, stated: 0.015, true: 0, regret: 0.005, trueRegret: 0 },
    {
      upTo: 0.75,
      trials: 2,
      stated: close(0.65),
      true: 0.5,
      regret: close(0.15),
      trueRegret: close(0.15),
    },
  ])
  expect(computeCalibration(runs, [1])[0]!.trials).toBe(4)
})
