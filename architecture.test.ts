import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { objectiveKinds } from './search/objective.ts'

const root = dirname(fileURLToPath(import.meta.url))

/** What each folder may import beside itself, of values and types alike: downward only. */
const below: Record<string, readonly string[]> = {
  search: [],
  profiler: [],
  trials: ['search', 'profiler'],
  reports: ['trials', 'search', 'profiler'],
  tuner: ['reports', 'trials', 'search', 'profiler'],
}

const isTest = (file: string) =>
  /(\.(test|bench|contract|k8s-test)\.tsx?$|\/testing\/|\/bench\/)/.test(file)

const allSources = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((f) => /\.tsx?$/.test(f) && !/node_modules/.test(f))
    .map((f) => join(folder, f))

/** Tests of the whole tree. */
const rootTests = readdirSync(root).filter((file) => /\.test\.ts$/.test(file))

const sources = (folder: string): string[] => allSources(folder).filter((f) => !isTest(f))

/**
 * Files of the repository that a file imports: by import, export from, import() and import types.
 */
function importsOf(file: string): string[] {
  const text = readFileSync(join(root, file), 'utf8')
  return [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*['"](\.[^'"]+)['"]/g)]
    .map(([, from]) => relative(root, resolve(root, dirname(file), from!)))
    .filter((target) => existsSync(join(root, target)))
}

describe.each(Object.entries(below))('%s/', (folder, allowed) => {
  test('imports downward alone', () => {
    const upward = sources(folder).flatMap((file) =>
      importsOf(file)
        .filter((target) => ![folder, ...allowed].includes(target.split('/')[0]!))
        .map((target) => `${file} imports ${target}`),
    )
    expect(upward).toEqual([])
  })

  test('keeps files under 600 lines', () => {
    const long = allSources(folder).filter(
      (f) => readFileSync(join(root, f), 'utf8').split('\n').length > 600,
    )
    expect(long).toEqual([])
  })
})

/**
 * Folders inside a layer, lowest first. A file imports its own folder and those before it. Files
 * directly in the layer come before all folders, unless they are listed; its index comes last.
 */
const rooms: Record<string, readonly string[]> = {
  profiler: [
    'statistics',
    'model',
    'prometheus.ts',
    'load',
    'capacity',
    'protocols',
    'load-sweep.ts',
    'profile.ts',
  ],
  search: ['space', 'gp', 'model', 'acquisition', 'stopping', 'samplers', 'replay'],
  trials: [
    'pipeline',
    'devices',
    'resources.ts',
    'predictor',
    'machine',
    'prices',
    'store',
    'servers',
    'launchers',
    'measured-with.ts',
  ],
  'trials/launchers/kubernetes': [
    'api',
    'gpus',
    'manifests',
    'watch',
    'scheduling',
    'cleanup',
    'launch',
    'kubernetes-launcher.ts',
    'pipeline-launcher.ts',
  ],
  reports: [
    'recommendation',
    'document',
    'plan',
    'report',
    'comparison',
    'dashboard',
    'specs',
    'fleet',
    'imports',
    'watch',
  ],
  'reports/dashboard': ['data', 'charts', 'page', 'standalone.ts'],
  tuner: [
    'config',
    'problem',
    'artifacts',
    'backends',
    'loop',
    'outputs',
    'run',
    'dashboard',
    'library',
    'cli',
    'cli.ts',
    'reference-docs',
  ],
  'tuner/cli': ['render', 'commands', 'tune-program.ts', 'write-man-page.ts'],
  'tuner/config': [
    'values',
    'schema',
    'types.ts',
    'yaml-file.ts',
    'draft.ts',
    'flags',
    'layers.ts',
    'context.ts',
    'local-gpus.ts',
    'host-context.ts',
    'served-model.ts',
    'tls-files.ts',
    'server-urls.ts',
    'kubernetes-settings.ts',
    'predictor-template.ts',
    'settings',
    'parameters.ts',
    'default-space.ts',
    'describe-experiment.ts',
    'experiment-checks.ts',
    'morphling.ts',
    'experiment-file.ts',
    'goal.ts',
    'request-trace.ts',
    'trace-rows.ts',
    'recorded-lengths.ts',
    'trace.ts',
    'input-files.ts',
    'resolve.ts',
    'joint-space.ts',
    'resolve-pipeline.ts',
    'resolve-triton-pipeline.ts',
    'secret-values.ts',
    'load-experiment.ts',
    'measured-with.ts',
  ],
}

describe.each(Object.entries(rooms))('folders of %s/', (layer, order) => {
  const floor = (file: string): number => {
    const [room] = file.slice(layer.length + 1).split('/')
    return room === 'index.ts' ? order.length : order.indexOf(room!)
  }

  test('are the ones listed here', () => {
    const unknown = sources(layer).filter(
      (file) => file.slice(layer.length + 1).includes('/') && floor(file) < 0,
    )
    expect(unknown).toEqual([])
  })

  test('import downward alone', () => {
    const upward = sources(layer).flatMap((file) =>
      importsOf(file)
        .filter((target) => target.startsWith(`${layer}/`) && floor(target) > floor(file))
        .map((target) => `${file} imports ${target}`),
    )
    expect(upward).toEqual([])
  })
})

test('the pictures of docs/explanation/imports.md are those of the code', async () => {
  const page = [
    '# Which folder imports which',
    '',
    'The folders of each layer, as their files import each other (`npm test -- architecture -u` draws the pictures again).',
    'An arrow points to the imported folder, which stands lower. Folders that are reached through another are not drawn twice.',
    'Not drawn: files that stand directly in a layer and that every folder may import.',
    ...['search', 'profiler', 'trials', 'reports', 'reports/dashboard', 'tuner'].flatMap(drawLayer),
    '',
  ].join('\n')
  await expect(page).toMatchFileSnapshot('docs/explanation/imports.md')
})

/** Draws the folders of a layer, without imports that a longer way leads to. */
function drawLayer(layer: string): string[] {
  const order = rooms[layer]!.filter((room) => !room.endsWith('.ts'))
  const targets = new Map(order.map((room) => [room, new Set<string>()]))
  for (const room of order)
    for (const file of sources(`${layer}/${room}`))
      for (const target of importsOf(file)) {
        const other = order.find((one) => target.startsWith(`${layer}/${one}/`))
        if (other !== undefined && other !== room) targets.get(room)!.add(other)
      }
  const reaches = (from: string, to: string): boolean =>
    [...targets.get(from)!].some((next) => next === to || reaches(next, to))
  const arrows = order.flatMap((room) =>
    [...targets.get(room)!]
      .filter((to) => ![...targets.get(room)!].some((via) => via !== to && reaches(via, to)))
      .map((to) => `  ${room} --> ${to}`),
  )
  return [
    '',
    `## ${layer}/`,
    '',
    '```mermaid',
    'flowchart TD',
    ...order.map((room) => `  ${room}`),
    ...arrows,
    '```',
  ]
}

test('launchers import what they share, and not each other', () => {
  const launcher = (file: string) => /^trials\/launchers\/([^/]+)\//.exec(file)?.[1]
  const sideways = sources('trials/launchers').flatMap((file) =>
    importsOf(file)
      .filter((target) => launcher(target) !== undefined && launcher(target) !== launcher(file))
      .map((target) => `${file} imports ${target}`),
  )
  expect(sideways).toEqual([])
})

test('no files import each other in a circle', () => {
  const graph = new Map(
    Object.keys(below)
      .flatMap(sources)
      .map((file) => [file, importsOf(file)]),
  )
  expect(circlesOf(graph)).toEqual([])
})

/** Strongly connected components of two files or more (Tarjan 1972). */
function circlesOf(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const circles: string[][] = []
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const visit = (file: string) => {
    index.set(file, index.size)
    low.set(file, index.get(file)!)
    stack.push(file)
    for (const next of graph.get(file) ?? []) {
      if (!graph.has(next)) continue
      if (!index.has(next)) visit(next)
      if (stack.includes(next)) low.set(file, Math.min(low.get(file)!, low.get(next)!))
    }
    if (low.get(file) !== index.get(file)) return
    const circle = stack.splice(stack.indexOf(file))
    if (circle.length > 1) circles.push(circle)
  }
  for (const file of graph.keys()) if (!index.has(file)) visit(file)
  return circles
}

test('the circle finder finds a circle', () => {
  const graph = new Map([
    ['a', ['b']],
    ['b', ['c']],
    ['c', ['a', 'd']],
    ['d', []],
  ])
  expect(circlesOf(graph)).toEqual([['a', 'b', 'c']])
})

describe('what is exported', () => {
  const everywhere = [...Object.keys(below), 'examples'].flatMap(allSources).concat(rootTests)
  const texts = new Map(everywhere.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  const importers = new Map<string, string[]>()
  for (const file of everywhere)
    for (const target of importsOf(file))
      importers.set(target, [...(importers.get(target) ?? []), file])
  const names = (text: string, name: string) => new RegExp(`\\b${name}\\b`).test(text)
  const exported = Object.keys(below)
    .flatMap(sources)
    .flatMap((file) =>
      [
        ...texts
          .get(file)!
          .matchAll(/^export (?:async )?(?:const|let|class|function\*?|type|interface) (\w+)/gm),
      ].map(([, name]) => ({
        file,
        name: name!,
        users: (importers.get(file) ?? []).filter(
          (f) => names(texts.get(f)!, name!) || /export \* from/.test(texts.get(f)!),
        ),
      })),
    )
  const said = ({ file, name }: (typeof exported)[number]) => `${file}: ${name}`

  test('is imported by another file, values and types alike', () => {
    expect(exported.filter(({ users }) => users.length === 0).map(said)).toEqual([])
  })

  test('serves the product: what tests alone import is used in its own file, or stands in a folder testing/', () => {
    const ownUses = ({ file, name }: (typeof exported)[number]) =>
      texts
        .get(file)!
        .replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '')
        .split(new RegExp(`\\b${name}\\b`)).length - 2
    const forTests = exported.filter((e) =>
      e.users.every((f) => isTest(f) || rootTests.includes(f)),
    )
    expect(forTests.filter((e) => ownUses(e) === 0).map(said)).toEqual([])
  })
})

test('the date is read for stamps alone: durations go by the steady clock of trials/clock.ts', () => {
  const mayReadIt = [
    'trials/clock.ts',
    // gRPC takes a deadline as a date, and turns it into a duration at once.
    'profiler/load/grpc-sender.ts',
    'profiler/protocols/grpc/call.ts',
    // Stamps of other people's formats.
    'trials/predictor/llm/llm-http.ts',
    'trials/launchers/kubernetes/launch/pod-launch.ts',
    // How long ago a stamp in the store was.
    'tuner/cli/commands/list/run.ts',
    // Until when production was looked at.
    'tuner/cli/commands/watch/run.ts',
  ]
  const readers = Object.keys(below)
    .flatMap(sources)
    .filter((f) =>
      /Date\.now|new Date\(\)\.getTime|\+new Date/.test(readFileSync(join(root, f), 'utf8')),
    )
  expect(readers.filter((f) => !mayReadIt.includes(f))).toEqual([])
})

test('search/ has no clock, no I/O and no randomness of its own', () => {
  const impure = sources('search').filter((f) =>
    /Math\.random|Date\.now|new Date\(|performance\.now|from 'node:|process\.\w/.test(
      readFileSync(join(root, f), 'utf8'),
    ),
  )
  expect(impure).toEqual([])
})

test('one table knows the objectives: no other file asks which one it is', () => {
  const names = objectiveKinds.join('|')
  const asks = new RegExp(
    `objective\\.kind\\s*[!=]==|[[(](\\w+\\.)*objective\\.kind\\)? ?[{\\]]|case '(${names})'|kind(\\.value)? [!=]== '(${names})'`,
  )
  const asking = Object.keys(below)
    .flatMap(sources)
    .filter(
      (file) =>
        file !== join('search', 'objective.ts') &&
        asks.test(readFileSync(join(root, file), 'utf8')),
    )
  expect(asking).toEqual([])
})
