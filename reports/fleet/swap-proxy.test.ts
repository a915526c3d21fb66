import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { checkManifests } from '../specs/validate.contract.ts'
import { turnsYaml } from './swap-proxy.ts'

const member = (name: string, model: string, loadS: number) => ({
  name,
  model,
  loadS,
  readyPath: '/ready',
  graceS: 30,
  mostRequests: 40,
})
const text = turnsYaml({
  name: 'turns-1-l4',
  on: 'a L4',
  members: [member('a-l4', 'a', 20), member('b-l4', 'b-l4', 90)],
})
const { objects, problems } = checkManifests(text)
const of = (kind: string) =>
  objects.find((object) => object.kind === kind) as Record<string, Record<string, unknown>>
const { 'config.yaml': configuration, 'swap.sh': script } = of('ConfigMap').data as Record<
  string,
  string
>

test('is valid, asks for no GPU, and may scale these Deployments and no others', () => {
  expect(problems).toEqual([])
  expect(objects.map(({ kind }) => kind)).toEqual([
    'ServiceAccount',
    'Role',
    'RoleBinding',
    'ConfigMap',
    'Deployment',
    'Service',
  ])
  expect(of('Role').rules).toEqual([
    {
      apiGroups: ['apps'],
      resources: ['deployments/scale'],
      resourceNames: ['a-l4', 'b-l4'],
      verbs: ['get', 'patch'],
    },
    { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
  ])
  expect(text).not.toContain('nvidia.com')
  expect(text).toContain('# The plan played a load of 20 s (a), 90 s (b-l4).')
})

test('one of a group at a time, asked where its Service is, for longer than the slowest loads', () => {
  expect(parse(configuration!)).toEqual({
    healthCheckTimeout: 300,
    unloadTimeout: 150,
    models: {
      'a-l4': {
        cmd: 'sh /etc/llama-swap/swap.sh start a-l4',
        cmdStop: 'sh /etc/llama-swap/swap.sh stop a-l4 ${PID}',
        proxy: 'http://a-l4',
        checkEndpoint: '/ready',
        concurrencyLimit: 40,
        aliases: ['a'],
      },
      'b-l4': {
        cmd: 'sh /etc/llama-swap/swap.sh start b-l4',
        cmdStop: 'sh /etc/llama-swap/swap.sh stop b-l4 ${PID}',
        proxy: 'http://b-l4',
        checkEndpoint: '/ready',
        concurrencyLimit: 40,
      },
    },
    routing: {
      router: {
        use: 'group',
        settings: { groups: { 'turns-1-l4': { swap: true, members: ['a-l4', 'b-l4'] } } },
      },
    },
  })
})

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'swap-'))
  for (const name of ['namespace', 'token']) writeFileSync(join(folder, name), `the-${name}`)
  // An API that has a pod left the first two times it is asked, and prints as curl is answered.
  writeFileSync(
    join(folder, 'curl'),
    `#!/bin/sh
echo "curl $*" >> ${folder}/seen
case "$*" in *pods*)
  n=$(grep -c pods ${folder}/seen)
  if [ "$n" -gt 2 ]; then printf '{\\n  "kind": "PodList",\\n  "items": []\\n}'; else printf '{\\n  "items": [\\n    {}\\n  ]\\n}'; fi
esac
`,
  )
  for (const name of ['kill', 'llama-swap', 'tail', 'sleep'])
    writeFileSync(join(folder, name), `#!/bin/sh\necho "${name} $*" >> ${folder}/seen\n`)
  for (const name of ['curl', 'kill', 'llama-swap', 'tail', 'sleep'])
    chmodSync(join(folder, name), 0o755)
  writeFileSync(
    join(folder, 'swap.sh'),
    script!
      .replaceAll('/var/run/secrets/kubernetes.io/serviceaccount', folder)
      .replaceAll('/app/llama-swap', `${folder}/llama-swap`)
      // The shell has one of its own.
      .replace('  kill "$2"', `  ${folder}/kill "$2"`),
  )
})
afterAll(() => rmSync(folder, { recursive: true }))

/** What the script does beyond itself. */
async function seen(...args: readonly string[]): Promise<string[]> {
  writeFileSync(join(folder, 'seen'), '')
  await promisify(execFile)('sh', [join(folder, 'swap.sh'), ...args], {
    env: { PATH: `${folder}:${process.env.PATH}` },
  })
  return readFileSync(join(folder, 'seen'), 'utf8').trimEnd().split('\n')
}
const scaled = (name: string, replicas: number) =>
  `curl --silent --show-error --fail --cacert ${folder}/ca.crt --header Authorization: Bearer the-token --request PATCH --header Content-Type: application/merge-patch+json --data {"spec":{"replicas":${replicas}}} --output /dev/null https://kubernetes.default.svc/apis/apps/v1/namespaces/the-namespace/deployments/${name}/scale`

test('the script begins with none up, brings one up for as long as it runs, and puts it away before it ends', async () => {
  expect(await seen('serve', 'a-l4', 'b-l4')).toEqual([
    scaled('a-l4', 0),
    scaled('b-l4', 0),
    'llama-swap -config /etc/llama-swap/config.yaml -listen :8080',
  ])
  expect(await seen('start', 'a-l4')).toEqual([scaled('a-l4', 1), 'tail -f /dev/null'])
  const stopped = await seen('stop', 'a-l4', '41')
  expect([stopped[0], stopped.at(-1)]).toEqual([scaled('a-l4', 0), 'kill 41'])
  expect(
    stopped.filter((line) =>
      line.endsWith('namespaces/the-namespace/pods?labelSelector=app.kubernetes.io%2Fname%3Da-l4'),
    ),
  ).toHaveLength(3)
  expect(stopped.filter((line) => line === 'sleep 1')).toHaveLength(2)
})
