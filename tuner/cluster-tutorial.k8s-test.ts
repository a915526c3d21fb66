/**
 * The kubectl commands of the tutorial for clusters, in the page's order, on a manifest that
 * `tune spec` would write and whose image the node has.
 */
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createServing } from '../reports/specs/create-serving.ts'
import { renderSpec } from '../reports/specs/index.ts'
import { found } from '../reports/specs/spec-samples.contract.ts'
import { createServingEnvironment } from '../trials/launchers/builtin.ts'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../trials/launchers/kubernetes/testing/namespace.ts'

const page = fileURLToPath(
  new URL('../docs/tutorials/from-recommendation-to-cluster.md', import.meta.url),
)
const folder = mkdtempSync(join(tmpdir(), 'tune-tutorial-'))
const kubeconfig = join(folder, 'kubeconfig')
let namespace: TestNamespace

beforeAll(async () => {
  namespace = await createNamespace()
  copyFileSync(process.env.KUBECONFIG!, kubeconfig)
  run(`kubectl config set-context --current --namespace ${namespace.name}`)
})
afterAll(async () => {
  await namespace?.remove()
  rmSync(folder, { recursive: true, force: true })
})

/** A command of the page, as a shell runs it in the reader's folder. */
function run(line: string): string {
  // The lab keeps kubectl beside its kubeconfig.
  const lab = join(dirname(process.env.KUBECONFIG!), 'bin')
  const PATH = existsSync(join(lab, 'kubectl')) ? `${lab}:${process.env.PATH}` : process.env.PATH
  return execFileSync('sh', ['-c', line], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH, KUBECONFIG: kubeconfig },
  })
}

const readKubectlLines = (): string[] =>
  [...readFileSync(page, 'utf8').matchAll(/^```bash\n([\s\S]*?)^```/gm)]
    .flatMap(([, block]) => block!.split('\n'))
    .filter((line) => line.startsWith('kubectl '))

async function writeManifest(): Promise<void> {
  const model = 'bert-tiny'
  const env = {
    ...createServingEnvironment(
      { kind: 'builtin', model, engine: 'tfjs' },
      { batchSize: 2 },
      'tfjs',
    ),
    MODEL: model,
    ENGINE: 'tfjs',
    CPU_CORES: '1',
    HOST: '0.0.0.0',
    PORT: '8000',
  }
  const container = {
    image: testImage(),
    args: ['predictor'],
    env,
    port: 8000,
    readyPath: '/v2/health/ready',
    livePath: '/v2/health/live',
  }
  const resources = { cpuCores: 0.5, memoryMiB: 512, gpus: 0, gpuShare: 0 }
  const serving = createServing(
    { ...found, resources, container },
    { headroom: 0.2, minReplicas: 1, maxReplicas: 1 },
  )
  mkdirSync(join(folder, 'deploy'))
  for (const { name, text } of await renderSpec('kubernetes', serving, { autoscaler: 'none' }))
    writeFileSync(join(folder, 'deploy', name), text)
}

test('apply, wait for the rollout, delete', async () => {
  const lines = readKubectlLines()
  expect(lines.map((line) => line.split(' ')[1])).toEqual(['apply', 'rollout', 'delete'])
  await writeManifest()
  const [apply, rollout, remove] = lines.map(String)
  expect(run(apply!)).toContain('deployment.apps/bert created')
  expect(run(rollout!)).toContain('successfully rolled out')
  run(remove!)
  await until(async () => (await namespace.leftovers()).length === 0)
})
