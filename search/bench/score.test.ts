import { expect, test } from 'vitest'
import { computeCalibration, type RunScore } from './score.ts'

test('compares stated probabilities with observed frequencies by bins', () => {
  const run = (...stated: readonly [probability: number, better: boolean][]): RunScore => ({
    trialsToWithin: 1,
    regret: { 10: 0, 20: 0, 30: 0 },
    stated: stated.map(([probability, better]) => ({ probability, better })),
    secondsPerSuggestion: 0,
  })
  expect(
    computeCalibration([
      run([1, true], [0.6, true], [0.01, false]),
      run([0.7, false], [0.02, false]),
    ]),
  ).toEqual([
    { upTo: 0.02, trials: 2, stated: 0.015, true: 0 },
    { upTo: 0.75, trials: 2, stated: expect.closeTo(0.65, 12), true: 0.5 },
  ])
})
