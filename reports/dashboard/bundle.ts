/** The page's browser code as one script: bundled by the build, or on demand from source. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { writeSharedStyle } from '../style.ts'

export interface Assets {
  readonly html: string
  readonly script: string
  readonly style: string
}

const isRunFromSource = import.meta.url.endsWith('.ts')
const thisFolder = fileURLToPath(new URL('.', import.meta.url))
const sourceFolder = isRunFromSource ? thisFolder : join(thisFolder, '../../../reports/dashboard')
const buildFolder = join(thisFolder, 'page')

/**
 * Loads the built page, or bundles it when run from source (under a second).
 * @throws Error if the build output is missing
 */
export async function loadAssets(): Promise<Assets> {
  if (isRunFromSource) return bundle()
  const read = (name: string) => readFile(join(buildFolder, name), 'utf8')
  const [html, script, style] = await Promise.all([
    read('index.html'),
    read('app.js'),
    read('style.css'),
  ])
  return { html, script, style }
}

/**
 * csv-stringify calls Buffer.isBuffer on its options. Browsers have no Buffer, and the page passes
 * none.
 */
const bufferShim = 'const Buffer={isBuffer:()=>false,from:(bytes)=>Uint8Array.from(bytes)};'

/** Resolves ml-matrix's source entry, which can be tree-shaken; its package entry cannot. */
const resolveMlMatrixSource = () =>
  join(dirname(createRequire(import.meta.url).resolve('ml-matrix')), 'src/index.js')

async function bundle(): Promise<Assets> {
  const { build } = await import('esbuild')
  const page = join(sourceFolder, 'page')
  const { outputFiles } = await build({
    entryPoints: [join(page, 'main.tsx')],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    alias: { 'ml-matrix': resolveMlMatrixSource() },
    jsx: 'automatic',
    jsxImportSource: 'preact',
    banner: { js: bufferShim },
    define: { 'process.env.NODE_ENV': '"production"' },
    tsconfigRaw: {},
  })
  const read = (name: string) => readFile(join(page, name), 'utf8')
  return {
    html: await read('index.html'),
    script: outputFiles[0]!.text,
    style: writeSharedStyle() + (await read('style.css')),
  }
}

// Run as a script by the build: writes the bundle to disk.
if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === process.argv[1]) {
  const { html, script, style } = await bundle()
  await mkdir(buildFolder, { recursive: true })
  await Promise.all([
    writeFile(join(buildFolder, 'index.html'), html),
    writeFile(join(buildFolder, 'app.js'), script),
    writeFile(join(buildFolder, 'style.css'), style),
  ])
}
