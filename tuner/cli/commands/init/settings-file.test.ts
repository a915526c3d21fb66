import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { draftFromCommand } from './experiment-draft.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-settings-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const planOf = (command: string) => draftFromCommand({ words: command.split(' ') }, folder)
const fileOf = (plan: ReturnType<typeof planOf>, name: string) =>
  (plan.predictor.files as Record<string, string>)[name]!

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
  expect(plan.comments).toMatchObject({
    'space.replicas': expect.stringContaining('replaces autoscaling_config'),
  })
})

test.each(['serve run app:app', 'serve run none.yaml'])(
  '%s says no deployment: nothing of a file is made up',
  (command) => {
    const plan = planOf(command)
    expect(plan.predictor).not.toHaveProperty('files')
    expect(plan.space).toEqual({})
  },
)
