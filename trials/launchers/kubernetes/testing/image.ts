/**
 * Before the tests against a cluster: an image of this project on its node. TUNE_K8S_IMAGE names
 * one that is already there; else TUNE_K8S_LAB, a folder with an `image` command (`image --node REF
 * FOLDER ENTRYPOINT`), makes one of a fresh build and the packages that pods need.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeFlags } from '../../../predictor/node-flags.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))

/**
 * Only the tuner itself needs these, and nearly all pods of the tests are predictors and load
 * generators.
 */
const tunerOnly =
  /^(@kubernetes|echarts|zrender|es-toolkit|sqlite3|ink|react|react-reconciler|yoga-layout)(\/|$)/

export default function setup(): void {
  if (process.env.TUNE_K8S_IMAGE) return
  const lab = process.env.TUNE_K8S_LAB
  if (!lab)
    throw new Error(
      'no image to test with: set TUNE_K8S_IMAGE to one whose entry point is `tune`, or TUNE_K8S_LAB',
    )
  const folder = mkdtempSync(join(tmpdir(), 'tune-image-'))
  // Its pods are no root.
  chmodSync(folder, 0o755)
  try {
    execFileSync(
      process.execPath,
      [
        join(root, 'node_modules/typescript/bin/tsc'),
        '-p',
        'tsconfig.build.json',
        '--noCheck',
        '--outDir',
        join(folder, 'dist'),
      ],
      {
        cwd: root,
        stdio: 'inherit',
      },
    )
    // As the build before these tests has bundled them.
    for (const bundled of [
      'dist/reports/dashboard/page',
      'dist/trials/launchers/kubernetes/api/client.js',
    ])
      cpSync(join(root, bundled), join(folder, bundled), { recursive: true })
    cpSync(join(root, 'package.json'), join(folder, 'package.json'))
    const copy = (packages: readonly string[]) => {
      for (const path of packages) {
        const to = join(folder, path)
        if (existsSync(to)) continue
        mkdirSync(dirname(to), { recursive: true })
        execFileSync('cp', ['-a', join(root, path), to])
      }
      execFileSync('find', [join(folder, 'node_modules'), '-name', '*.map', '-delete'])
    }
    const packages = productionPackages()
    copy(packages.filter((path) => !tunerOnly.test(path.slice('node_modules/'.length))))
    const image = (reference: string, entry: readonly string[]) =>
      execFileSync(join(lab, 'image'), ['--node', reference, folder, JSON.stringify(entry)], {
        stdio: ['ignore', 'ignore', 'inherit'],
      })
    const entry = ['/usr/bin/node', ...nodeFlags, 'dist/tuner/cli.js']
    image('lab/tune:test', entry)
    // As deployment specs name it: without arguments it serves.
    image('tune-predictor:0.1.0', [...entry, 'predictor'])
    copy(packages)
    image('lab/tuner:test', entry)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  process.env.TUNE_K8S_IMAGE = 'lab/tune:test'
  process.env.TUNE_K8S_TUNER_IMAGE = 'lab/tuner:test'
}

const productionPackages = (): string[] => {
  // npm reports extraneous packages by its exit code; what it lists is right all the same.
  const npm = ['ls', '--omit=dev', '--all', '--parseable']
  // Where the packages lie, the folder may be another's (a worktree's link).
  const packagesIn = dirname(realpathSync(join(root, 'node_modules')))
  const listed = (() => {
    try {
      return execFileSync('npm', npm, {
        cwd: packagesIn,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      })
    } catch (error) {
      return (error as { stdout: string }).stdout
    }
  })()
  const paths = listed
    .trim()
    .split('\n')
    .slice(1)
    .map((path) => relative(packagesIn, path))
  // A package goes with what is nested in it.
  return paths.sort((a, b) => a.length - b.length)
}
