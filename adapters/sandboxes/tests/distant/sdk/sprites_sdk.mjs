// Drives the vendor's own SDK against an address: what it does here, the stand-in must understand.
import assert from 'node:assert/strict';

const [sdk, baseURL, token] = process.argv.slice(2);
const { SpritesClient } = await import(sdk);
const client = new SpritesClient(token, { baseURL });

const sprite = await client.createSprite('arbe-s1', {
  environment: { A: '1' },
  labels: ['arbe.house=h1', 'arbe.sandbox=s1'],
  config: { ramMB: 512, cpus: 1 },
});
assert.equal(sprite.status, 'cold');
assert.deepEqual(sprite.labels, ['arbe.house=h1', 'arbe.sandbox=s1']);

const done = await sprite.execFile('sh', ['-c', 'echo "$A $X"; echo err >&2'], { env: { X: 'y' } });
assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, '1 y\n', 'err\n']);
const failed = await sprite.execFile('sh', ['-c', 'echo out; exit 7']).catch((error) => error);
assert.deepEqual([failed.exitCode, failed.stdout], [7, 'out\n']);
assert.equal((await client.getSprite('arbe-s1')).status, 'running');

const cat = sprite.spawn('cat');
let echoed = '';
cat.stdout.on('data', (data) => (echoed += data));
await new Promise((resolve) => cat.once('spawn', resolve));
cat.stdin.end('through');
assert.equal(await cat.wait(), 0);
assert.equal(echoed, 'through');

const home = (await sprite.execFile('sh', ['-c', 'printf %s "$HOME"'])).stdout;
const files = sprite.filesystem(home);
await files.writeFile('dir/file', Buffer.from([0, 1, 255]), { mode: 0o600 });
assert.deepEqual([...(await files.readFile('dir/file'))], [0, 1, 255]);
assert.equal((await files.stat('dir/file')).mode, 0o600);
assert.equal((await files.readFile('none').catch((error) => error)).code, 'ENOENT');

await sprite.updateNetworkPolicy({ rules: [{ domain: 'example.org', action: 'allow' }, { domain: '*', action: 'deny' }] });
assert.equal((await sprite.getNetworkPolicy()).rules.length, 2);

for await (const message of await sprite.createCheckpoint('before')) assert.ok(message.type);
assert.equal((await sprite.listCheckpoints()).length, 1);

await sprite.update({ labels: ['arbe.house=h2'] });
await client.createSprite('arbe-s2');
await client.createSprite('arbe-s3');
const names = (await client.listAllSprites('arbe-')).map((one) => one.name);
assert.deepEqual(names, ['arbe-s1', 'arbe-s2', 'arbe-s3']);

for (const name of names) await client.deleteSprite(name);
const gone = await client.getSprite('arbe-s1').catch((error) => error);
assert.equal(gone.statusCode, 404);
console.log('passed');
