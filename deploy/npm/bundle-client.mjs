/**
 * Puts what trials/launchers/kubernetes/api/client.ts takes of the Kubernetes client in its place in
 * dist/, with what that needs and without the API's 800 modules of types. The client stays a
 * dependency, for the licences of what is bundled to come with it. Run by `npm run build`.
 */
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const module = fileURLToPath(new URL('../../dist/trials/launchers/kubernetes/api/client.js', import.meta.url))

/**
 * Its package.json does not say that importing its modules does nothing; without that all of them
 * stay.
 */
const client = /node_modules[/\\]@kubernetes[/\\]client-node[/\\]/
const withoutEffects = {
  name: 'without-effects',
  setup({ onResolve, resolve }) {
    onResolve({ filter: /.*/ }, async ({ path, importer, resolveDir, kind, pluginData }) => {
      if (pluginData === 'resolved') return
      const found = await resolve(path, { importer, resolveDir, kind, pluginData: 'resolved' })
      return client.test(found.path) ? { ...found, sideEffects: false } : found
    })
  },
}

await build({
  entryPoints: [module],
  outfile: module,
  allowOverwrite: true,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  legalComments: 'eof',
  minify: true,
  keepNames: true,
  // Optional, and looked for where they are called.
  external: ['encoding', 'utf-8-validate', 'bufferutil'],
  banner: { js: "import { createRequire } from 'node:module'\nconst require = createRequire(import.meta.url)" },
  plugins: [withoutEffects],
})
