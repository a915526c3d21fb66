/** What deploy/ holds, as far as it can be checked without a cluster and without an engine that builds images. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { V1PodSpec } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { checkManifests } from '../../../reports/specs/validate.contract.ts'
import { restrictedViolations } from './testing/restricted.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const deploy = join(root, 'deploy')
const read = (file: string) => readFileSync(join(deploy, file), 'utf8')
const manifests = readdirSync(deploy, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.yaml') && !/kustomization|experiment/.test(file),
)

test.each(manifests)('%s: official fields of stable APIs alone, from 1.28 on', (file) => {
  const { objects, problems } = checkManifests(read(file))
  expect(problems).toEqual([])
  expect(objects.length).toBeGreaterThan(0)
  for (const { apiVersion } of objects) expect(apiVersion).toMatch(/^([a-z0-9.]+\/)?v1$/)
})

test.each(manifests)('%s: its pods are what the restricted profile asks for, with limits for a quota', (file) => {
  const pods = parseAllDocuments(read(file)).flatMap((document) => podSpecsIn(document.toJS()))
  for (const spec of pods) {
    expect(restrictedViolations(spec)).toEqual([])
    for (const { resources } of spec.containers)
      expect(resources?.limits).toMatchObject({ cpu: expect.anything(), memory: expect.anything() })
  }
})

function podSpecsIn(object: unknown): V1PodSpec[] {
  if (typeof object !== 'object' || object === null) return []
  return 'containers' in object ? [object as V1PodSpec] : Object.values(object).flatMap(podSpecsIn)
}

test('the kustomization names files that are there', () => {
  const { resources, configMapGenerator } = parseAllDocuments(read('base/kustomization.yaml'))[0]!.toJS()
  for (const file of [...resources, ...configMapGenerator[0].files]) expect(existsSync(join(deploy, 'base', file)), file).toBe(true)
})

describe.each(readdirSync(deploy).filter((file) => file.endsWith('Dockerfile')))('%s', (file) => {
  const lines = read(file)
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => /^[A-Z]+ /.test(line))
  const of = (instruction: string) =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1))
  const ignored = read(`${file}.dockerignore`).split('\n').filter(Boolean)

  test('copies what is there and is not ignored, of the folder or of an earlier stage', () => {
    const stages = of('FROM').flatMap((line) => / AS (\S+)$/.exec(line)?.[1] ?? [])
    for (const line of of('COPY')) {
      const [, stage, paths = line] = /^--from=(\S+) (.*)$/.exec(line) ?? []
      if (stage !== undefined) expect(stages, line).toContain(stage)
      else
        for (const path of paths.split(/\s+/).slice(0, -1)) {
          expect(existsSync(join(root, path)), line).toBe(true)
          expect(ignored, line).not.toContain(path)
        }
    }
  })

  test('starts what its own build makes, not as root', () => {
    const [entry] = of('ENTRYPOINT').map((line) => JSON.parse(line) as string[])
    const source = /^\/app\/dist\/(.*)\.js$/.exec(entry!.at(-1)!)?.[1]
    expect(existsSync(join(root, `${source}.ts`)), String(entry)).toBe(true)
    // A name would not do: a cluster that wants runAsNonRoot could not tell it from root.
    expect(of('USER')).toEqual(['1000'])
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
    for (const [, script] of lines.join('\n').matchAll(/npm run (?:-s )?(\S+)/g)) expect(scripts).toHaveProperty(script!)
  })
})
