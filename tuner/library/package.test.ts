/**
 * The package as its users get it: packed, installed into an empty folder, run there. What is left
 * out: its dependencies are this checkout's own (hard links), so that nothing is fetched and
 * sqlite3 is not compiled anew. TUNE_PACKAGE: a tarball of the sources as they are; without it one
 * is packed here.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'tune-package-'))
const app = join(folder, 'app')
const env = {
  ...process.env,
  NO_COLOR: '1',
  CI: '1',
  npm_config_update_notifier: 'false',
  npm_config_cache: join(folder, 'cache'),
}
interface RunOptions {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
}
const answered = (program: string, args: readonly string[], options: RunOptions = {}) =>
  spawnSync(program, args, {
    cwd: app,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: 2 ** 26,
    ...options,
  })

/**
 * What it prints.
 * @throws Error with all that it said where it does not end well
 */
function run(program: string, args: readonly string[], options?: RunOptions): string {
  const { status, stdout, stderr } = answered(program, args, options)
  if (status !== 0)
    throw new Error(`${program} ${args.join(' ')} ended with ${status}:\n${stdout}\n${stderr}`)
  return stdout
}

const version = (
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
).version
/** Undefined if there is no repository. */
const git = (...args: string[]): string | undefined => {
  try {
    return run('git', args, { cwd: root }).trim()
  } catch {
    return undefined
  }
}

/** Paths in the tarball. */
let packed: readonly string[]

beforeAll(() => {
  const tarball = process.env.TUNE_PACKAGE ?? pack()
  packed = run('tar', ['tzf', tarball], { cwd: folder })
    .trim()
    .split('\n')
    .map((path) => path.replace(/^package\//, ''))
  mkdirSync(app)
  const asked = { dependencies: { tune: `file:${tarball}` } }
  const { packages, ...lock } = JSON.parse(
    readFileSync(join(root, 'package-lock.json'), 'utf8'),
  ) as { packages: Record<string, Locked> }
  const delivered = Object.entries(packages).filter(
    ([path, { dev, peer }]) => path !== '' && !dev && !peer,
  )
  for (const [path] of delivered) link(path)
  link('node_modules/.bin')
  // npm is told which versions there are, so that it asks nobody; and no checksums, for those of
  // packages that it did not bring there itself it does not know.
  const { dependencies, bin, engines } = packages['']!
  const known = {
    ...Object.fromEntries(delivered.map(([path, { integrity: _, ...locked }]) => [path, locked])),
    '': asked,
    'node_modules/tune': { version, resolved: asked.dependencies.tune, dependencies, bin, engines },
  }
  writeFileSync(
    join(app, 'package.json'),
    JSON.stringify({ private: true, type: 'module', ...asked }),
  )
  writeFileSync(join(app, 'package-lock.json'), JSON.stringify({ ...lock, packages: known }))
  run('npm', ['install', '--offline', '--no-audit', '--no-fund'])
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** `npm pack`, with its build, of a copy: this checkout's dist/ is in use. */
function pack(): string {
  const copy = join(folder, 'checkout')
  const sources = ['search', 'profiler', 'trials', 'reports', 'tuner', 'deploy/npm']
  const files = [
    'package.json',
    'package-lock.json',
    'README.md',
    'LICENSE',
    ...readdirSync(root).filter((name) => /^tsconfig.*\.json$/.test(name)),
  ]
  for (const name of [...sources, ...files])
    cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(realpathSync(join(root, 'node_modules')), join(copy, 'node_modules'))
  const repository = git('rev-parse', '--absolute-git-dir')
  run('npm', ['pack', '--pack-destination', folder], {
    cwd: copy,
    env: { ...env, ...(repository !== undefined && { GIT_DIR: repository }) },
  })
  return join(folder, `tune-${version}.tgz`)
}

interface Locked {
  readonly dev?: boolean
  readonly peer?: boolean
  readonly integrity?: string
  readonly dependencies?: object
  readonly bin?: object
  readonly engines?: object
}

/**
 * A package with what is nested in it, by hard links where the file system allows; those of other
 * platforms are not there.
 */
function link(path: string): void {
  const to = join(app, path)
  if (existsSync(to) || !existsSync(join(root, path))) return
  mkdirSync(dirname(to), { recursive: true })
  const from = realpathSync(join(root, path))
  try {
    run('cp', ['-al', from, to])
  } catch {
    run('cp', ['-a', from, to])
  }
}

describe('the tarball', () => {
  test('holds what is needed and nothing else', () => {
    const page = 'dist/reports/dashboard/page'
    const data = packed.filter((path) => !/^dist\/.*\.(js|d\.ts)$/.test(path))
    expect(data.filter((path) => path !== 'dist/commit').sort()).toEqual(
      [
        'LICENSE',
        'README.md',
        'package.json',
        `${page}/index.html`,
        `${page}/style.css`,
        'dist/trials/devices/coefficients.json',
        'dist/tune.1',
      ].sort(),
    )
    expect(packed).toEqual(
      expect.arrayContaining([
        `${page}/app.js`,
        'dist/tuner/cli.js',
        'dist/tuner/library/index.d.ts',
      ]),
    )
    expect(
      packed.filter((path) =>
        /(^|\/)(testing|bench|fixtures)\/|\.(test|bench|contract|k8s-test)\.|\.map$/.test(path),
      ),
    ).toEqual([])
    expect(packed.filter((path) => /write-reference|calibration\/calibrate/.test(path))).toEqual([])
  })

  const roff = answered('groff', ['--version'], { cwd: root }).status === 0
  test.skipIf(!roff)(
    'holds the manual page, which roff takes without a warning (needs groff)',
    () => {
      const page = join(app, 'node_modules/tune/dist/tune.1')
      const { status, stdout, stderr } = answered('groff', [
        '-man',
        '-Tascii',
        '-P-cbou',
        '-ww',
        page,
      ])
      expect([status, stderr]).toEqual([0, ''])
      for (const said of ['--slo', 'COMMANDS', 'tune verify', 'EXIT STATUS'])
        expect(stdout).toContain(said)
    },
  )

  test('asks for nothing that is not there: what it imports is among its dependencies', () => {
    const installed = join(app, 'node_modules/tune')
    const { dependencies, peerDependencies } = JSON.parse(
      readFileSync(join(installed, 'package.json'), 'utf8'),
    ) as Record<string, object>
    const declared = new Set([...Object.keys(dependencies!), ...Object.keys(peerDependencies!)])
    const imported = packed
      .filter((path) => /\.(js|d\.ts)$/.test(path) && !path.includes('/page/'))
      .flatMap((path) => {
        const text = readFileSync(join(installed, path), 'utf8')
        return [
          ...text.matchAll(
            /(?:^(?:import|export) [^'"]*?from |\bimport\()['"]([^.'"$][^'"]*)['"]/gm,
          ),
        ].map(([, name]) => ({
          path,
          name: name!,
        }))
      })
    const missing = imported.filter(({ name }) => {
      const [scope, rest] = name.split('/')
      return (
        !name.startsWith('node:') &&
        !declared.has(name.startsWith('@') ? `${scope}/${rest}` : scope!)
      )
    })
    expect(imported.length).toBeGreaterThan(100)
    // The page is bundled by the build, and from sources.
    expect(missing).toEqual([{ path: 'dist/reports/dashboard/bundle.js', name: 'esbuild' }])
  })
})

test("has of the Kubernetes client what it uses, without the API's types, and that reads a kubeconfig with its plugins", () => {
  const client = join(app, 'node_modules/tune/dist/trials/launchers/kubernetes/api/client.js')
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: process.execPath,
    args: ['-e', `console.log(JSON.stringify({ status: { token: 'of the plugin' } }))`],
    interactiveMode: 'Never',
  }
  const kubeconfig = {
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:6443' } }],
    users: [{ name: 'u', user: { exec } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  const script = `
    const { KubeConfig, PortForward } = await import(${JSON.stringify(client)})
    const config = new KubeConfig()
    config.loadFromString(${JSON.stringify(JSON.stringify(kubeconfig))})
    const options = {}
    await config.applyToHTTPSOptions(options)
    console.log(config.getCurrentCluster().server, options.headers.Authorization, typeof new PortForward(config).portForward)`
  expect(run(process.execPath, ['--input-type=module', '-e', script]).trim()).toBe(
    'https://127.0.0.1:6443 Bearer of the plugin function',
  )
  expect(readFileSync(client, 'utf8')).not.toMatch(/V1Deployment|@kubernetes\/client-node['"]/)
})

describe('the command', () => {
  const tune = (...args: string[]) => run('npx', ['--no-install', 'tune', ...args])

  test('says its version, and the commit that it was built from', () => {
    const commit = git('rev-parse', '--short', 'HEAD')
    expect(tune('--version').trim()).toBe(commit === undefined ? version : `${version} (${commit})`)
  })

  test('estimates, searches in virtual time, and writes a report', () => {
    expect(tune('estimate', '--model', 'bert', '--slo', '50ms')).toContain('Expected best: ')
    const found = JSON.parse(
      tune(
        '--model',
        'bert',
        '--slo',
        '50ms',
        '--backend',
        'simulated',
        '--max-trials',
        '3',
        '--json',
      ),
    ) as object
    expect(found).toMatchObject({ best: expect.anything() })
    tune('report', '--out', 'bert.html')
    expect(readFileSync(join(app, 'bert.html'), 'utf8')).toContain('<svg')
  })

  test('launches its own predictor, whose workers are there', () => {
    // What it measures depends on what else the machine does.
    const brief = ['--max-trials', '1', '--no-confirm', '--trial-time', '1s', '--time-limit', '2s']
    const { stdout } = answered('npx', [
      '--no-install',
      'tune',
      '--model',
      'bert-tiny',
      '--slo',
      '10s',
      '--devices',
      'cpu',
      ...brief,
      '--events',
    ])
    const events = stdout
      .split('\n')
      .flatMap((line) =>
        line === '' ? [] : [JSON.parse(line) as { type: string; phase?: string }],
      )
    expect(events.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['predictor-ready', 'trial-finished', 'recommended']),
    )
    expect(events.map(({ phase }) => phase)).toContain('search')
  })

  test('serves the dashboard', async () => {
    const child = spawn(join(app, 'node_modules/.bin/tune'), ['dashboard', '--port', '0'], {
      cwd: app,
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    try {
      const [said] = (await once(child.stdout, 'data')) as [Buffer]
      const page = await (await fetch(said.toString().trim())).text()
      expect(page).toContain('<title>')
    } finally {
      const ended = once(child, 'close')
      child.kill('SIGINT')
      expect((await ended)[0]).toBe(0)
    }
  })
})

/** tsc complains of an error that is expected and not there. */
const refusedByTypes = `import { profile, search, tune } from 'tune'
export const all = [
  // @ts-expect-error: a key that there is not
  () => tune({ experiment: { model: 'bert', sloo: '50ms' } }),
  // @ts-expect-error: a sampler that there is not
  () => tune({ experiment: { model: 'bert', slo: '50ms', sampler: 'best' } }),
  // @ts-expect-error: no SLO
  () => profile({ url: 'http://127.0.0.1:8000' }),
  // @ts-expect-error: no number
  () => search({ space: { n: '1..8' }, evaluate: ({ n }) => String(n) }),
]
`

test('the examples of docs/reference/library.md are typed, and run', () => {
  const text = readFileSync(join(root, 'docs/reference/library.md'), 'utf8')
  const examples = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code!)
  const said = [
    /ended: (max-trials|not-worthwhile|certain)\n.*simulated/is,
    /^met \d+$/m,
    /(certain|max-trials) after \d+.*\n?.*batch/s,
  ]
  expect(examples).toHaveLength(said.length)
  for (const [i, code] of examples.entries()) writeFileSync(join(app, `example-${i}.ts`), code)
  writeFileSync(join(app, 'example-refused.ts'), refusedByTypes)
  link('node_modules/@types/node')
  link('node_modules/undici-types')
  const options = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    skipLibCheck: false,
    types: ['node'],
  }
  writeFileSync(
    join(app, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: options, include: ['example-*.ts'] }),
  )
  run(join(root, 'node_modules/.bin/tsc'), ['-p', app])
  for (const [i, pattern] of said.entries())
    expect(run(process.execPath, [`example-${i}.js`])).toMatch(pattern)
})
