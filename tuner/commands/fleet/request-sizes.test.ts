import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkManifests } from '../../../reports/specs/validate.contract.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { CliBox } from '../../testing/run-cli.ts'
import { readFleetFile } from './fleet-file.ts'
import { joinedClasses } from './request-sizes.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sizes-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const fileOf = (model: string) => {
  const path = join(folder, 'fleet.yaml')
  writeFileSync(path, `gpus: {L4: , H100: }\nmodels:\n  a: ${model}\n`)
  return readFleetFile(path, defaultPriceBook)
}

test.each([
  [
    '{classes: {x: {share: 60%, table: a.csv}, y: {share: 30%, table: b.csv}}, demand: 1}',
    /a.classes.*100 % together/,
  ],
  ['{classes: {x: {share: 100%, table: a.csv}}, demand: 1}', /one class is no class/],
  [
    '{classes: {x: {share: 50%}, y: {share: 50%, table: b.csv}}, demand: 1}',
    /a.classes.x: needs what was measured of it/,
  ],
  ['{llm: {model: llama-3.1-8b, lengths: t.csv}, demand: 1}', /a.slo.*is needed by llm/],
  [
    '{llm: {model: bert, lengths: t.csv}, slo: tpot<80ms, demand: 1}',
    /no language model is called 'bert'/,
  ],
  ['{llm: {model: llama-3.1-8b}, slo: tpot<80ms, demand: 1}', /needs the lengths of its requests/],
  [
    '{llm: {model: llama-3.1-8b, inputTokens: 90}, slo: tpot<80ms, demand: 1}',
    /needs the lengths of its requests/,
  ],
  ['{llm: {model: llama-3.1-8b, lengths: t.csv}, table: a.csv, slo: 5s, demand: 1}', /one of them/],
  [
    '{llm: {model: llama-3.1-8b, lengths: t.csv, settings: {maxSeqs: 3}}, slo: 5s, demand: 1}',
    /unknown key 'maxSeqs'/,
  ],
  ['{table: a.csv, slo: p90 tpot<80ms, demand: 1}', /a.slo.*is a p99 of whole answers/],
])('%s is refused', (model, message) => {
  expect(() => fileOf(model)).toThrow(message)
})

test('a replica serves the classes that were measured in its configuration', () => {
  const segment = (gpu: string, rateRps: number, label: string) => ({
    gpu,
    slice: 'whole',
    gpus: 1,
    rateRps,
    label,
  })
  const { buckets, segments } = joinedClasses('m', [
    { name: 'x', share: 0.6, segments: [segment('L4', 10, 'c1'), segment('H100', 30, 'c1')] },
    { name: 'y', share: 0.4, segments: [segment('H100', 6, 'c1'), segment('H100', 8, 'c2')] },
  ])
  expect(buckets).toEqual([
    { name: 'x', share: 0.6 },
    { name: 'y', share: 0.4 },
  ])
  expect(
    segments.map(({ gpu, label, bucketRps, rateRps, startedAs }) => [
      gpu,
      label,
      bucketRps,
      Number(rateRps.toFixed(3)),
      startedAs,
    ]),
  ).toEqual([
    ['L4', 'c1', [10, 0], 0, 'x'],
    ['H100', 'c1', [30, 6], 11.538, 'x'],
    ['H100', 'c2', [0, 8], 0, 'y'],
  ])
  expect(() => joinedClasses('m', [{ name: 'x', share: 1, segments: [] }])).toThrow('class x')
})

test('classes of two tables: a mix cheaper than one kind, its routes in report, file and manifests', async () => {
  const box = new CliBox()
  try {
    writeFileSync(
      join(box.folder, 'short.csv'),
      'gpu,throughputRps,latencyMs\nL4,20,100\nH100,60,100\n',
    )
    writeFileSync(
      join(box.folder, 'long.csv'),
      'gpu,throughputRps,latencyMs\nL4,0.5,900\nH100,9,900\n',
    )
    const classes = '{short: {share: 80%, table: short.csv}, long: {share: 20%, table: long.csv}}'
    writeFileSync(
      join(box.folder, 'fleet.yaml'),
      `gpus: {L4: {price: 1}, H100: {price: 5}}\nmodels: {chat: {classes: ${classes}, slo: 1s, demand: 40, image: "x:1"}}\n`,
    )
    const { code, stderr } = await box.run(['fleet', '-f', 'fleet.yaml', '--out', 'out'])
    expect({ code, stderr }).toMatchObject({ code: 0 })
    // 32 a second of short ones take two L4, 8 of long ones one H100; alone: two H100, or eighteen
    // L4.
    const json = JSON.parse(readFileSync(join(box.folder, 'out', 'fleet.json'), 'utf8'))
    expect(json).toMatchObject({ pricePerHour: 7, boundPerHour: 7 })
    expect(json.mixes).toMatchObject([
      {
        model: 'chat',
        alone: { pricePerHour: 7 },
        kinds: [
          { kind: 'H100', gpus: 2, pricePerHour: 10 },
          { kind: 'L4', gpus: 18 },
        ],
      },
    ])
    const html = readFileSync(join(box.folder, 'out', 'fleet.html'), 'utf8')
    expect(html).toContain('30 % cheaper than one kind')
    const l4 = readFileSync(join(box.folder, 'out', 'models', 'chat-l4.yaml'), 'utf8')
    expect(l4).toContain(
      '# Of the requests of chat these go to these replicas, and no others:\n#   short: ',
    )
    expect(l4).toContain('replicas: 2')
    expect(checkManifests(l4).problems).toEqual([])
  } finally {
    box.dispose()
  }
})
