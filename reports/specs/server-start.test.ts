/**
 * Containers of specs, started: those without weights refuse and say why, Triton gets a repository
 * with the tuned configuration in it.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { createServing } from './create-serving.ts'
import { renderSpec } from './index.ts'
import { best, evidence, found, ownCommand, serving } from './spec-samples.contract.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-start-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Pod {
  readonly containers: readonly [{ readonly command: string[]; readonly args?: string[] }]
}
async function commandOf(of: Parameters<typeof renderSpec>[1]): Promise<string[]> {
  const [file] = await renderSpec('kubernetes', of)
  const deployment = parseAllDocuments(file!.text)
    .map((d) => d.toJS())
    .find(({ kind }) => kind === 'Deployment')
  const [{ command, args = [] }] = (deployment.spec.template.spec as Pod).containers
  return [...command, ...args]
}
const start = ([program, ...args]: string[], env: NodeJS.ProcessEnv = {}) =>
  spawnSync(program!, args, { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } })

test.each(['tfserving', 'triton', 'vllm'] as const)(
  '%s without weights ends at once and says why',
  async (server) => {
    const measured = {
      ...ownCommand,
      server: 'builtin',
      engine: 'emulated',
      how: 'emulated',
      modelKind: server === 'vllm' ? 'decoder' : 'encoder',
      weights: 'none',
    } as const
    // Of a language model what was emulated is vLLM's own; the others are marked as other servers.
    const of = createServing(
      { ...found, deployed: { server, weights: 'missing' }, evidence: { ...evidence, measured } },
      { headroom: 0.2 },
    )
    const { status, stderr } = start(await commandOf(of))
    expect(status).toBe(1)
    expect(stderr).toMatch(/no model weights.*--model-uri/)
  },
)

test('scripts without weights end likewise', async () => {
  const bare = (server: 'tfserving' | 'vllm') => ({ ...serving({ server }), modelUri: undefined })
  for (const target of ['tfserving', 'vllm'] as const) {
    const path = join(folder, `${target}.sh`)
    writeFileSync(
      path,
      (await renderSpec(target, bare(target))).find(({ name }) => name === 'serve.sh')!.text,
    )
    const { status, stderr } = start(['sh', path])
    expect(status, stderr).not.toBe(0)
    expect(stderr).toContain('no model weights')
  }
})

test.each([
  ['the repository around the model', 'repository'],
  ["the model's own folder", 'repository/bert'],
])(
  'Triton starts on a repository of its own, made from %s, with the tuned config.pbtxt',
  async (_, given) => {
    const [tuned, made, models] = ['etc', 'made', 'models'].map((name) =>
      join(folder, given.replace('/', '-'), name),
    ) as [string, string, string]
    mkdirSync(join(models, 'repository/bert/1'), { recursive: true })
    mkdirSync(tuned, { recursive: true })
    mkdirSync(join(folder, 'bin'), { recursive: true })
    writeFileSync(join(models, 'repository/bert/1/model.onnx'), 'weights')
    writeFileSync(join(models, 'repository/bert/config.pbtxt'), 'name: "old"')
    writeFileSync(join(tuned, 'config.pbtxt'), 'name: "tuned"')
    writeFileSync(join(folder, 'bin/tritonserver'), '#!/bin/sh\necho "$@"\n')
    chmodSync(join(folder, 'bin/tritonserver'), 0o755)
    const command = await commandOf(serving({ server: 'triton' }))
    const here = command.map((part) =>
      part
        .replaceAll('/etc/tuned', tuned)
        .replaceAll('/tmp/repository', made)
        .replaceAll('/mnt/models', join(models, given)),
    )
    const { status, stdout, stderr } = start(here, {
      PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
    })
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toBe(
      `--model-repository=${made} --http-port=8000 --grpc-port=8001 --metrics-port=8002\n`,
    )
    expect(readFileSync(join(made, 'bert/config.pbtxt'), 'utf8')).toBe('name: "tuned"')
    expect(readFileSync(join(made, 'bert/1/model.onnx'), 'utf8')).toBe('weights')
    expect(readlinkSync(join(made, 'bert/1'))).toContain('repository/bert/1')
    // What it was made from stays as it was.
    expect(readFileSync(join(models, 'repository/bert/config.pbtxt'), 'utf8')).toBe('name: "old"')

    rmSync(join(models, 'repository/bert/1'), { recursive: true })
    const empty = start(here, { PATH: `${join(folder, 'bin')}:${process.env.PATH}` })
    expect(empty.status).toBe(1)
    expect(empty.stderr).toMatch(/no version folder of bert/)
    expect(existsSync(join(folder, 'none'))).toBe(false)
  },
)

test('an option that would be ignored is refused', async () => {
  const refused: [Parameters<typeof renderSpec>, RegExp][] = [
    [['kserve', serving(), { autoscaler: 'keda' }], /--autoscaler does not apply to KServe/],
    [['kubernetes', serving(), { variant: 'knative' }], /--variant does not apply/],
    [['kubernetes', serving(), { backend: 'python' }], /--triton-backend applies to Triton/],
    [['kubernetes', serving(), { prometheus: 'http://p' }], /--prometheus applies only to KEDA/],
    [['compose', serving(), { importPath: 'a:b' }], /--import-path does not apply/],
    [
      ['vllm', serving({ server: 'vllm' }, undefined, { isImageNamed: true }), {}],
      /names no image/,
    ],
    [
      [
        'kubernetes',
        createServing(
          { ...found, candidate: best, container: { ...found.container, isImageNamed: true } },
          { headroom: 0, pod: { spec: {} } },
        ),
        {},
      ],
      /own pod names its image/,
    ],
  ]
  for (const [asked, why] of refused) await expect(renderSpec(...asked)).rejects.toThrow(why)
})
