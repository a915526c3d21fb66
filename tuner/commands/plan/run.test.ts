/** `tune plan` on prices of instances that are sold. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CliBox } from '../../testing/run-cli.ts'
import { WarmCli } from '../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const fixture = (name: string) => fileURLToPath(new URL(`../../../reports/imports/fixtures/${name}`, import.meta.url))
const planned = async (...words: string[]) => {
  const { code, stdout, stderr } = await tune.run(box, ['plan', '--demand', '800', '--json', ...words])
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
  expect(JSON.stringify(await planned('--prices', 'aws-reserved-instances'))).toContain(`${Math.round(3 * 0.331 * 720 * 100) / 100}`)
  const shown = await tune.run(box, ['show', '--prices', 'gcp'])
  expect(shown.stderr).not.toContain('cannot be read')
})
