import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import type { Configuration } from '../../search/types.ts'
import { formatCsv } from '../../trials/csv.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import { parseCsv } from '../../trials/testing/parsed-csv.ts'
import { recommend } from '../recommendation/recommend.ts'
import { complete, measured, sampleInput, sampleTrials } from '../samples.contract.ts'
import {
  createRecommendationJson,
  createRecommendationJsonSchema,
  recommendationDocument,
  toDocument,
} from './recommendation-json.ts'
import { renderTrialsCsv, trialColumns } from './trials-csv.ts'
import { writeAtomically } from './write-atomically.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('recommendation.json', () => {
  test('is valid, and read back it says the same', () => {
    const confirmed = complete(7, sampleTrials[1]!.configuration, measured(260, 10), {
      purpose: 'confirmation',
    })
    const recommendation = recommend({ ...sampleInput, trials: [...sampleTrials, confirmed] })
    const read = recommendationDocument.parse(JSON.parse(createRecommendationJson(recommendation)))
    expect(read).toEqual(toDocument(recommendation))
    expect(read.best).toEqual(recommendation.best)
    expect(read.confirmation).toMatchObject({ trial: 7, met: true })
    expect(read.alternatives.find((a) => a.trial === 5)).toMatchObject({
      cost: null,
      pricePerMillionRequests: null,
      feasible: false,
    })
  })

  test('of an experiment without a result is valid as well', () => {
    for (const trials of [[], sampleTrials.slice(4), sampleTrials.slice(3)]) {
      recommendationDocument.parse(
        JSON.parse(createRecommendationJson(recommend({ ...sampleInput, trials }))),
      )
    }
  })

  test('that is not one is refused with every field at fault', () => {
    const broken = {
      ...toDocument(recommend(sampleInput)),
      schema: 'tune.recommendation/v9',
      seed: 'seven',
    }
    const { error } = recommendationDocument.safeParse(JSON.parse(JSON.stringify(broken)))
    expect(error!.issues.map(({ path }) => path.join('.'))).toEqual(['schema', 'seed'])
  })

  test('has a JSON schema', () => {
    expect(createRecommendationJsonSchema()).toMatchObject({
      type: 'object',
      properties: { verdict: { type: 'string' } },
    })
  })
})

describe('CSV', () => {
  test('comes back as it was, whatever the text', () => {
    const text = fc
      .string({ unit: 'binary' })
      .filter((t) => !/^[=+\-@\t\r]/.test(t) && !t.includes('\0'))
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constant('x'), text, text), { minLength: 1 }), (rows) => {
        expect(parseCsv(formatCsv(['a', 'b', 'c'], rows)).slice(1)).toEqual(rows)
      }),
    )
  })

  test('cannot make a spreadsheet run a formula', () => {
    for (const evil of ['=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\rx'])
      expect(parseCsv(formatCsv(['a'], [[evil]]))[1]![0]).toBe(`'${evil}`)
    expect(formatCsv(['a'], [[-5]])).toBe('a\r\n-5\r\n')
  })

  test('with bare line ends, a byte order mark or an open quote is read or refused', () => {
    expect(parseCsv('\uFEFFa,b\n1,"x\ny"\n\n')).toEqual([
      ['a', 'b'],
      ['1', 'x\ny'],
    ])
    expect(() => parseCsv('a\nb\n"c')).toThrow(/csv:3:/)
  })

  test('of trials has a row per trial and a documented column each', () => {
    const [header, ...rows] = parseCsv(renderTrialsCsv(sampleTrials, sampleInput))
    expect(rows).toHaveLength(sampleTrials.length)
    for (const column of trialColumns) expect(header).toContain(column.name)
    const at = (row: number, name: string) => rows[row]![header!.indexOf(name)]
    expect(at(1, 'parameter.batchSize')).toBe('8')
    expect(Number(at(1, 'safe_capacity_rps'))).toBeCloseTo(0.9 * 212, 6)
    expect(at(1, 'estimate_rps')).toBe('212')
    for (const row of [4, 5])
      for (const name of ['safe_capacity_rps', 'estimate_rps', 'estimate_low_rps', 'slo_ms'])
        expect(at(row, name)).toBe('')
    expect([at(0, 'feasible'), at(4, 'feasible'), at(5, 'feasible')]).toEqual(['true', 'false', ''])
    expect(at(4, 'reason')).toBe('out of memory: 4.6 GiB of 4.0 GiB')
    expect(at(4, 'slo_ms')).toBe('')
    expect(rows.every((row) => row.length === header!.length)).toBe(true)
  })
})

describe('writing a file', () => {
  test('replaces the old text whole, making the folder', async () => {
    const path = join(folder, 'new', 'x.json')
    await writeAtomically(path, 'one')
    await writeAtomically(path, 'two')
    expect(readFileSync(path, 'utf8')).toBe('two')
    expect(readdirSync(join(folder, 'new'))).toEqual(['x.json'])
  })

  test('that cannot be written leaves nothing and says where', async () => {
    const blocked = join(folder, 'blocked')
    writeFileSync(blocked, '')
    await expect(writeAtomically(join(blocked, 'x.json'), 'x')).rejects.toMatchObject({
      name: 'WriteError',
      message: expect.stringContaining('x.json'),
    })
    await expect(writeAtomically(folder, 'x')).rejects.toMatchObject({ name: 'WriteError' })
    expect(readdirSync(folder).filter((f) => f.endsWith('.tmp'))).toEqual([])
  })
})

test('says what the figures were measured of, of the recommended configuration, and keeps every word of it', () => {
  const measuredWith = (configuration: Configuration): MeasuredWith => ({
    how: 'measured',
    server: 'url',
    model: String(configuration.batchSize),
    protocol: 'json',
    path: '/score',
    healthPath: '/alive',
    body: '{}',
    modelKind: 'unknown',
    weights: 'own',
    url: 'http://h',
  })
  const recommendation = recommend({ ...sampleInput, measuredWith })
  const { configuration } = (recommendation.best ?? recommendation.nearest)!
  expect(toDocument(recommendation).measuredWith).toEqual(measuredWith(configuration))
  expect(toDocument(recommend(sampleInput)).measuredWith).toBeUndefined()
})
