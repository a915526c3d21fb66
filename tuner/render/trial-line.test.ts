import { expect, test } from 'vitest'
import type { Measurement } from '../../profiler/types.ts'
import { measurement } from '../testing/fakes.ts'
import { trialLine } from './trial-line.ts'

const line = (given: Partial<Measurement>) => {
  const trial = { id: 1, number: 3, purpose: 'search', configuration: {}, startedAt: '', seconds: 4, state: 'complete' } as const
  const row = { trial: { ...trial, measurement: { ...measurement(120), ...given } }, label: '2 cores', pricePerHour: 1 }
  return trialLine(row as unknown as Parameters<typeof trialLine>[0], { unicode: false, color: false }).text
}

test('a capacity is told with its interval, or as the bound that it is', () => {
  expect(line({})).toMatch(/^#3 2 cores: about 120 req\/s \[114 to 126\], /)
  expect(line({ outcome: 'beaten' })).toMatch(/: at most 126 req\/s/)
  expect(line({ capacityCi90Rps: [114, Number.POSITIVE_INFINITY] })).toMatch(/: at least 120 req\/s, \$/)
})
