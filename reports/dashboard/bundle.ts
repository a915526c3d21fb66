/**
 * The page's browser code as one script: bundled when the product is built, or at once where it
 * runs from its sources.
 */
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

const fromSources = import.meta.url.endsWith('.ts')
const here = fileURLToPath(new URL('.', import.meta.url))
const sources = fromSources ? here : join(here, '../../../reports/dashboard')
const built = join(here, 'page')

/**
 * Loads the page, as the build made it; from sources it is bundled now (under a second).
 * @throws Error when the build lacks it
 */
export async function loadAssets(): Promise<Assets> {
  if (fromSources) return bundle()
  const read = (name: string) => readFile(join(built, name), 'utf8')
  const [html, script, style] = await Promise.all([
    read('index.html'),
    read('app.js'),
    read('style.css'),
  ])
  return { html, script, style }
}

/**
 * csv-stringify asks of its options whether they are Buffers of Node's, which a browser lacks; none
 * of the page's are.
 */
const bufferShim = 'const Buffer={isBuffer:()=>false,from:(bytes)=>Uint8Array.from(bytes)};'

/** The sources of ml-matrix, of which only what is used is bundled; its entry holds all of it. */
const mlMatrix = () =>
  join(dirname(createRequire(import.meta.url).resolve('ml-matrix')), 'src/index.js')

async function bundle(): Promise<Assets> {
  const { build } = await import('esbuild')
  const page = join(sources, 'page')
  const { outputFiles } = await build({
    entryPoints: [join(page, 'main.tsx')],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    alias: { 'ml-matrix': mlMatrix() },
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

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === process.argv[1]) {
  const { html, script, style } = await bundle()
  await mkdir(built, { recursive: true })
  await Promise.all([
    writeFile(join(built, 'index.html'), html),
    writeFile(join(built, 'app.js'), script),
    writeFile(join(built, 'style.css'), style),
  ])
}
