/** `tune plan` on prices of instances that are sold. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const fixture = (name: string) =>
  fileURLToPath(new URL(`../../../../reports/imports/fixtures/${name}`, import.meta.url))
const planned = async (...words: string[]) => {
  const { code, stdout, stderr } = await tune.run(box, [
    'plan',
    '--demand',
    '800',
    '--json',
    ...words,
  ])
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return JSON.parse(stdout).plan?.units[0] ?? JSON.parse(stdout).units[0]
}

beforeAll(async () => {
  // 420 req/s on a T4 with four cores.
  const files = [fixture('metrics-model-inference.csv'), fixture('metrics-model-gpu.csv')]
  const on = ['--slo', '30ms', '--on', 'gpu=T4,cpuCores=4', '--prices', 'aws-instances']
  expect((await tune.run(box, ['import', ...files, ...on])).code).toBe(0)
})
afterAll(async () => {
  await box.end()
  await tune.end()
})

test("it pays by the experiment's own prices, whole instances: three g4dn.xlarge for a month", async () => {
  expect(JSON.stringify(await planned())).toContain(`${Math.round(3 * 0.526 * 720 * 100) / 100}`)
})

test('--prices of what is stored takes a provider by name', async () => {
  expect(JSON.stringify(await planned('--prices', 'aws-reserved-instances'))).toContain(
    `${Math.round(3 * 0.331 * 720 * 100) / 100}`,
  )
  const shown = await tune.run(box, ['show', '--prices', 'gcp'])
  expect(shown.stderr).not.toContain('cannot be read')
})

const commitmentOf = async (...words: string[]) => {
  const { code, stdout, stderr } = await tune.run(box, [
    'plan',
    '--demand',
    '800',
    '--json',
    ...words,
  ])
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout).commitment
}

test('committed prices of the list are known: three g4dn.xlarge that are needed all the time are committed to', async () => {
  const commitment = await commitmentOf()
  expect(commitment).toMatchObject({
    offer: { instance: 'g4dn.xlarge', onDemandPerHour: 0.526, committedPerHour: 0.331 },
    committed: 3,
    maxOnDemand: 0,
  })
  expect(commitment.perMonth).toBeCloseTo(3 * 0.331 * 720, 9)
  expect(commitment.allOnDemandPerMonth).toBeCloseTo(3 * 0.526 * 720, 9)
})

test('a price file says what commitments cost, and --committed before it', async () => {
  const file = join(box.folder, 'mine.yaml')
  writeFileSync(
    file,
    'extends: aws-instances\ncommittedShare: 0.3\ninstances:\n  mine: {gpu: T4, vcpus: 8, memoryGiB: 32, price: 0.2, committed: 0.05}\n',
  )
  const { offer } = await commitmentOf('--prices', file)
  expect(offer).toMatchObject({
    instance: 'mine',
    onDemandPerHour: 0.2,
    committedPerHour: 0.05,
  })
  expect((await commitmentOf('--committed', '90%')).offer.committedPerHour).toBeCloseTo(0.4734, 9)
})

test.each([
  [['--committed', '0%'], 'is not a price'],
  [['--committed', '60%', '--prices', 'aws-reserved-instances'], 'those of committed capacity'],
])('%j is refused', async (words, why) => {
  const { code, stderr } = await tune.run(box, ['plan', '--demand', '800', ...words])
  expect(code).toBe(2)
  expect(stderr).toContain(why)
})
