/** Files of `tune fleet` to begin from, in the forms that they may have. */
export const fleetSeeds = {
  files: [
    `gpus:\n  A100-80GB: {count: 8}\n  L4:\nmodels:\n  bert: {experiment: bert-4f2a, demand: '0-8:20, 8-20:800, 20-24:60'}\n  resnet50: {table: resnet50.csv, gpu: A100-80GB, slo: 200ms, demand: 2200}\nheadroom: 10%\n`,
    `gpus: {A100-80GB: {perNode: 4}}\nmodels:\n  bert: {table: bert.csv, slo: 200ms, demand: 20, image: 'x:1', port: 9000, health: /h}\ntimezone: Europe/Berlin\n`,
    `gpus: {L4: {mps: true}, H100: {mig: false}}\nmodels:\n  a: {table: a.csv, demand: 12}\n  b: {experiment: b-1, demand: 9}\n`,
  ],
  tables: [
    'gpu,slice,throughputRps,latencyMs,batch\nA100-80GB,1g.10gb,120.5,40,8\nA100-80GB,whole,900,25,16\nA100-80GB,3,400,infeasible,4\n',
    'gpu,throughputRps,latencyMs,cores\nL4,20,900,75.5\nL4,30,1800,\n',
    'gpu,gpuSharePercent,throughputRps,latencyMs,memoryMiB\nV100,40,505,20,2100\nV100,100,900,15,2100\n',
  ],
} as const
