import { describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../../../trials/types.ts'
import { bert, useWorkspace } from '../../experiment/testing/workspace.ts'
import { expectedTime, sameServer } from './expected-time.ts'

const { load } = useWorkspace()
const took = (...seconds: number[]) => seconds.map((each) => ({ state: 'complete', seconds: each }) as FinishedTrial)

describe('how long a run takes', () => {
  test('a server that was never started: its trials, its starts, and up to four confirmations', () => {
    const { aboutSeconds, atMostSeconds, said } = expectedTime(load({ ...bert, maxTrials: '10' }), 500, [])
    // 10 trials of 3 s under open load, 4.5 s of loops and a start of 2 s; half of a confirmation's 30 s, its loops and start.
    expect(aboutSeconds).toBeCloseTo(10 * 9.5 + 15 + 6.5)
    expect(atMostSeconds).toBeCloseTo(10 * 19 + 4 * (30 + 16))
    expect(said).toContain('for each of up to 11 starts')
  })

  test('a server that was: as its trials took, its start among them', () => {
    const earlier = [...took(40, 60), { state: 'failed', seconds: 1 } as FinishedTrial]
    const { aboutSeconds, atMostSeconds, said } = expectedTime(load({ ...bert, maxTrials: '10' }), 500, earlier)
    expect(aboutSeconds).toBeCloseTo(10 * 50 + 15 + 47)
    expect(atMostSeconds).toBeCloseTo(10 * 60 + 4 * (30 + 57))
    expect(said).toBe('as its last 2 trials took, 50 s each')
  })

  test('a space smaller than the budget, trials at once, no confirmation, a limit', () => {
    const four = expectedTime(load({ ...bert, confirm: false }), 4, took(10))
    expect(four.aboutSeconds).toBe(40)
    expect(expectedTime(load({ ...bert, confirm: false, parallel: '2' }), 4, took(10)).aboutSeconds).toBe(20)
    expect(expectedTime(load({ ...bert, timeLimit: '30s' }), 400, took(10))).toMatchObject({ aboutSeconds: 30, atMostSeconds: 30 })
  })

  test('simulated time is not waited for', () => {
    const { aboutSeconds, atMostSeconds, said } = expectedTime(load({ ...bert, backend: 'simulated' }), 500, took(90))
    expect(aboutSeconds).toBeLessThan(15)
    expect(atMostSeconds).toBeLessThan(60)
    expect(said).toContain('simulated')
  })

  test('the same server is one that is started and loaded in the same way', () => {
    const record = (flags: Record<string, string>) => ({ spec: JSON.parse(JSON.stringify(load({ ...bert, ...flags }).document)) }) as never
    expect(sameServer(record({}), load({ ...bert, slo: '90ms', maxTrials: '3' }))).toBe(true)
    expect(sameServer(record({}), load({ ...bert, model: 'resnet50' }))).toBe(false)
    expect(sameServer(record({}), load({ ...bert, trialTime: '9s' }))).toBe(false)
    expect(sameServer(record({ backend: 'simulated' }), load(bert))).toBe(false)
  })
})
