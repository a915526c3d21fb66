import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { CliBox } from '../../testing/run-cli.ts'

const task = {
  name: 'two knobs',
  parameters: [
    { name: 'batchSize', kind: 'ordinal', values: [1, 2, 4] },
    { name: 'gpu', kind: 'categorical', values: ['T4', 'L4'] },
  ],
  price: 'pricePerHour',
  objective: 'pricePerRequest',
  constraint: { metric: 'latencyMs', max: 50 },
  infeasibleColumn: 'infeasible',
}
// Cheapest per request within 50 ms: L4, batch 2 (0.7 / 3600 / 200).
const table = `batchSize,gpu,latencyMs,throughputRps,pricePerHour,infeasible
1,T4,20,50,0.35,0
2,T4,40,70,0.35,0
4,T4,80,90,0.35,0
1,L4,10,120,0.7,0
2,L4,20,200,0.7,0
4,L4,,,0.7,1
`

describe('tune replay', () => {
  const box = new CliBox()
  afterAll(() => box.dispose())
  writeFileSync(join(box.folder, 'task.json'), JSON.stringify(task))
  writeFileSync(join(box.folder, 'runs.csv'), table)

  test('recommends the cheapest recorded configuration within the constraint', async () => {
    const { code, stdout } = await box.run(['replay', '--table', 'runs.csv', '--task', 'task.json', '--sampler', 'grid', '--json'])
    expect(code).toBe(0)
    const document = JSON.parse(stdout)
    expect(document.recommended.configuration).toEqual({ batchSize: 2, gpu: 'L4' })
    expect(document.recommended.cost).toBeCloseTo((0.7 / 3600 / 200) * 1e6, 6)
    expect(document.regret).toBe(0)
  })

  test('nothing within the constraint: exit 3', async () => {
    writeFileSync(join(box.folder, 'tight.json'), JSON.stringify({ ...task, constraint: { metric: 'latencyMs', max: 1 } }))
    const { code, stdout } = await box.run(['replay', '--table', 'runs.csv', '--task', 'tight.json'])
    expect(code).toBe(3)
    expect(stdout).toContain('latencyMs <= 1')
  })

  test.each([
    ['a column that is missing', table.replace('latencyMs', 'latency'), task, /runs-bad\.csv.*latencyMs/s],
    ['a cell that is no number', table.replace('2,T4,40', '2,T4,slow'), task, /row 2.*latencyMs.*slow/s],
    ['a task without a price', table, { ...task, price: undefined }, /task-bad\.json:\d+: price/],
  ])('%s: exit 2 with the place', async (_what, csv, badTask, message) => {
    writeFileSync(join(box.folder, 'runs-bad.csv'), csv)
    writeFileSync(join(box.folder, 'task-bad.json'), JSON.stringify(badTask, null, 1))
    const { code, stderr } = await box.run(['replay', '--table', 'runs-bad.csv', '--task', 'task-bad.json'])
    expect(stderr).toMatch(message)
    expect(code).toBe(2)
  })

  test("reads Model Analyzer's table with an SLO in place of a task", async () => {
    const header = 'Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Throughput (infer/sec),p99 Latency (ms)'
    writeFileSync(
      join(box.folder, 'metrics.csv'),
      `${header}\nm,1,8,c0,1:GPU,8,300,20\nm,1,8,c1,2:GPU,8,420,22\nm,1,8,c2,2:GPU,16,500,41\n`,
    )
    const { code, stdout } = await box.run(['replay', '--table', 'metrics.csv', '--slo', '30ms', '--price-per-hour', '$0.5', '--json'])
    expect(code).toBe(0)
    const { recommended } = JSON.parse(stdout)
    expect(recommended.configuration).toEqual({ maxBatchSize: 8, instances: 2 })
    expect(recommended.cost).toBeCloseTo((0.5 / 3600 / 420) * 1e6, 6)
    expect(await box.run(['replay', '--table', 'runs.csv', '--slo', '30ms'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('neither'),
    })
    expect(await box.run(['replay', '--table', 'runs.csv'])).toMatchObject({ code: 2, stderr: expect.stringContaining('--task') })
  })
})
