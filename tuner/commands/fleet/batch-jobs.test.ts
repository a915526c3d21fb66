/** Jobs of low priority in a fleet file: what is said of them, and what is written. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkManifests } from '../../../reports/specs/validate.contract.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { CliBox } from '../../testing/run-cli.ts'
import { readFleetFile } from './fleet-file.ts'

test('work of low priority stands on what the night leaves, in pods that every other puts out and no node is brought for', async () => {
  const box = new CliBox()
  try {
    for (const [name, text] of Object.entries({
      'web.csv': 'gpu,throughputRps,latencyMs\nT4,10,20\n',
      'embed.csv': 'gpu,throughputRps,latencyMs\nT4,5,200\n',
      'fleet.yaml': `gpus: {T4: {mig: false}}
models: {web: {table: web.csv, slo: 300ms, demand: '0-8:10, 8-20:40, 20-24:10', image: 'registry.example/web:1'}}
batch: {embed: {table: embed.csv, slo: 1m, perDay: 500000, image: 'registry.example/embed:1'}}
`,
    }))
      writeFileSync(join(box.folder, name), text)
    const { code, stdout } = await box.run([
      'fleet',
      '-f',
      'fleet.yaml',
      '--solver-time',
      '4s',
      '--out',
      'out',
    ])
    expect(code).toBe(0)
    expect(stdout).toContain('Of low priority')
    const fleet = JSON.parse(readFileSync(join(box.folder, 'out/fleet.json'), 'utf8'))
    expect(fleet.lowPriority).toMatchObject([
      { name: 'embed', donePerDay: 500_000, places: [{ gpu: 'T4', slice: 'whole', replicas: 3 }] },
    ])
    expect(fleet.gpus).toHaveLength(4)
    const written = ['priority.yaml', 'models/embed-t4.yaml'].map((path) =>
      readFileSync(join(box.folder, 'out', path), 'utf8'),
    )
    const { objects, problems } = checkManifests(written.join('---\n'))
    expect(problems).toEqual([])
    const [{ metadata, value, preemptionPolicy }] = objects as unknown as [
      { metadata: { name: string }; value: number; preemptionPolicy: string },
    ]
    expect([value < -10, preemptionPolicy]).toEqual([true, 'Never'])
    expect(objects.find(({ kind }) => kind === 'Deployment')).toMatchObject({
      spec: { replicas: 3, template: { spec: { priorityClassName: metadata.name } } },
    })
    expect(objects.map(({ kind }) => kind)).not.toContain('PodDisruptionBudget')
    expect(readFileSync(join(box.folder, 'out/models/web-t4.yaml'), 'utf8')).not.toContain(
      'priorityClassName',
    )
  } finally {
    await box.end()
  }
})

test.each([
  ['{web: {table: a.csv, perDay: 5}}', 'a name of its own'],
  ['{job: {perDay: 5}}', 'needs what was measured of it'],
  ['{job: {table: a.csv, perDay: 0}}', 'batch.job.perDay'],
  ['{job: {table: a.csv, slo: p90 ttft<1s, perDay: 5}}', 'a p99 of whole answers'],
])('batch: %s is refused', (batch, why) => {
  const box = new CliBox()
  try {
    const path = join(box.folder, 'fleet.yaml')
    writeFileSync(path, `gpus: {T4: }\nmodels: {web: {table: a.csv, demand: 5}}\nbatch: ${batch}\n`)
    expect(() => readFleetFile(path, defaultPriceBook)).toThrow(why)
  } finally {
    box.dispose()
  }
})
