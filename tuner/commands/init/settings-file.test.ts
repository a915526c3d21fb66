import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { commandPlan } from './plan.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-settings-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const planOf = (command: string) => commandPlan(command.split(' '), folder)
const fileOf = (plan: ReturnType<typeof planOf>, name: string) =>
  (plan.predictor.files as Record<string, string>)[name]!

test("TorchServe's config.properties: what stands there stays, but for the ports and what is tuned", () => {
  writeFileSync(
    join(folder, 'config.properties'),
    'inference_address=http://0.0.0.0:8080\nnumber_of_netty_threads=32\njob_queue_size=1000\n',
  )
  const plan = planOf(
    'torchserve --start --ncs --ts-config config.properties --model-store store --models bert=bert.mar',
  )
  expect(plan.predictor.command).toEqual(
    'torchserve --start --ncs --model-store store --foreground --ts-config=${dir}/config.properties'.split(
      ' ',
    ),
  )
  const lines = fileOf(plan, 'config.properties').split('\n')
  expect(lines.slice(0, 2)).toEqual([
    'job_queue_size=1000',
    'inference_address=http://${host}:${port}',
  ])
  expect(lines).toContain('number_of_netty_threads=${nettyThreads}')
  const models = lines.find((line) => line.startsWith('models='))!.slice('models='.length)
  expect(JSON.parse(models.replaceAll(/\$\{\w+\}/g, '7'))).toEqual({
    bert: {
      '1.0': {
        defaultVersion: true,
        marName: 'bert.mar',
        minWorkers: 7,
        maxWorkers: 7,
        batchSize: 7,
        maxBatchDelay: 7,
        responseTimeout: 120,
      },
    },
  })
  expect(Object.keys(plan.space!)).toEqual([
    'nettyThreads',
    'workers',
    'batchSize',
    'maxBatchDelay',
  ])
  expect(plan.predictor).toMatchObject({
    protocol: 'json',
    path: '/predictions/bert',
    healthPath: '/ping',
  })
  expect(plan.predictor).not.toHaveProperty('env')
})

test('TorchServe that names no model is tuned by its threads alone', () => {
  const plan = planOf('torchserve --start --model-store store --models all')
  expect(Object.keys(plan.space!)).toEqual(['nettyThreads'])
  expect(fileOf(plan, 'config.properties')).not.toContain('models=')
})

test("Ray Serve's configuration: the port, and every deployment's replicas, requests at once and cores", () => {
  const applications = [
    {
      name: 'app',
      import_path: 'app:app',
      deployments: [
        {
          name: 'Model',
          autoscaling_config: { max_replicas: 3 },
          ray_actor_options: { num_gpus: 0 },
        },
        { name: 'Ingress' },
      ],
    },
  ]
  writeFileSync(
    join(folder, 'serve.yaml'),
    JSON.stringify({ http_options: { port: 8000, request_timeout_s: 5 }, applications }),
  )
  const plan = planOf('serve run serve.yaml --blocking')
  expect(plan.predictor.command).toEqual(['serve', 'run', '${dir}/serve.yaml', '--blocking'])
  const filled = fileOf(plan, 'serve.yaml')
    .replaceAll('${host}', 'h')
    .replaceAll(/"?\$\{(\w+)\}"?/g, '3')
  const tuned = { num_replicas: 3, max_ongoing_requests: 3 }
  expect(parse(filled)).toEqual({
    http_options: { host: 'h', port: 3, request_timeout_s: 5 },
    applications: [
      {
        name: 'app',
        import_path: 'app:app',
        deployments: [
          { name: 'Model', ...tuned, ray_actor_options: { num_gpus: 0, num_cpus: 3 } },
          { name: 'Ingress', ...tuned, ray_actor_options: { num_cpus: 3 } },
        ],
      },
    ],
  })
  expect(Object.keys(plan.space!)).toEqual(['replicas', 'maxOngoingRequests', 'numCpus'])
})

test.each(['serve run app:app', 'serve run none.yaml'])(
  '%s says no deployment: nothing of a file is made up',
  (command) => {
    const plan = planOf(command)
    expect(plan.predictor).not.toHaveProperty('files')
    expect(plan.space).toEqual({})
  },
)
