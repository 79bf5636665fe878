"""A corpus of secrets, made up when the test runs."""

import random
import re
import string

# A kind of secret: how it stands in a log. `<a36>` is made up when the test runs: a letters and
# digits, d digits, h hexadecimal, u upper case and digits, l lower case, b base64, w a password;
# n is a new line, t a tab, e an escape, c and q a full-width `:` and `=`.
# Nothing here looks like a secret to a scanner of this repository.
KINDS = r"""
aws secret key|export AWS_SECRET_ACCESS_KEY=<b40>
aws key id|aws_access_key_id = AKIA<u16>
aws key id in prose|the key AKIA<u16> was used
aws temporary key id|ASIA<u16>
aws session token|AWS_SESSION_TOKEN=<b120>
aws presigned address|https://b.s3.amazonaws.com/x?X-Amz-Date=1&X-Amz-Signature=<h64>
aws security token in an address|https://b.s3.amazonaws.com/x?X-Amz-Security-Token=<b80>
google api key|AIza<a35>
google oauth token|ya29.<a60>
google oauth secret|GOCSPX-<a28>
google refresh token|1//<a43>
google hmac key|GOOG1<u56>
google signed address|https://storage.googleapis.com/b/o?X-Goog-Signature=<h128>
google service account|"private_key_id": "<h40>"
azure storage key|DefaultEndpointsProtocol=https;AccountName=x;AccountKey=<b86>==;EndpointSuffix=core
azure client secret by shape|value <a3>8Q~<a34>
azure client secret by name|AZURE_CLIENT_SECRET=<a34>
azure shared access signature|https://x.blob.core.windows.net/c?sv=2022&sig=<b43>%3D
azure sas by name|STORAGE_SAS=<b43>
azure subscription key|Ocp-Apim-Subscription-Key: <h32>
azure connection string|CONNECTION_STRING="Endpoint=sb://x/;SharedAccessKey=<b43>="
github classic|gh<>p_<a36>
github oauth|gh<>o_<a36>
github app|gh<>s_<a36>
github fine grained|github_<>pat_<a22>_<a59>
gitlab personal|gl<>pat-<a20>
gitlab deploy|gl<>dt-<a20>
gitlab runner|gl<>rt-<a20>
gitlab ci job|gl<>cbt-<a24>
gitlab trigger|gl<>ptt-<h40>
gitlab agent|gl<>agent-<a50>
gitlab old runner|GR<>1348941<a20>
slack bot|xo<>xb-<d12>-<d12>-<a24>
slack user|xo<>xp-<d12>-<d12>-<d12>-<h32>
slack app|xa<>pp-1-A<u10>-<d13>-<h64>
slack webhook|https://hooks.slack.com/services/T<u8>/B<u8>/<a24>
slack workflow|https://hooks.slack.com/workflows/T<u8>/A<u8>/<d18>/<a24>
discord webhook|https://discord.com/api/webhooks/<d18>/<a68>
discord bot|M<a23>.<a6>.<a27>
teams webhook|https://x.webhook.office.com/webhookb2/<h32>@<h32>/IncomingWebhook/<h32>
zapier webhook|https://hooks.zapier.com/hooks/catch/<d7>/<a7>
telegram bot|<d10>:<a35>
telegram address|https://api.telegram.org/bot<d10>:<a35>/getMe
pypi|py<>pi-AgEIcHlwaS5vcmc<a80>
npm token|np<>m_<a36>
npmrc token|//registry.npmjs.org/:_authToken=<a36>
npmrc basic|_auth=<b24>
npmrc password|//registry.example.org/:_password=<b24>
docker hub|dckr_<>pat_<a27>
docker config|"auth": "<b40>"
docker config, indented|<t><t>"auth":"<b40>"
docker identity|"identitytoken": "<a60>"
rubygems|rubygems_<h48>
stripe live|sk_<>live_<a24>
stripe restricted|rk_<>live_<a24>
stripe test|sk_<>test_<a24>
stripe webhook|wh<>sec_<a32>
square|sq0<>csp-<a43>
square access|sq0<>atp-<a22>
shopify|sh<>pat_<h32>
sendgrid|S<>G.<a22>.<a43>
mailgun|key-<h32>
mailchimp|<h32>-us12
brevo|xkey<>sib-<h64>-<a16>
twilio account|AC<h32>
twilio key|SK<h32>
vault service|hv<>s.<a24>
vault batch|hv<>b.<a40>
vault old|s.<a24>
vault by name|VAULT_TOKEN=<a24>
vault header|X-Vault-Token: <a24>
terraform cloud|<a14>.atlas<>v1.<a60>
pulumi|pu<>l-<h40>
digitalocean|do<>p_v1_<h64>
digitalocean oauth|do<>o_v1_<h64>
databricks|dapi<h32>
heroku by name|HEROKU_API_KEY=<h8>-<h4>-<h4>-<h4>-<h12>
heroku|HR<>KU-<h8>-<h12>
fly|fm<>2_<b60>
doppler|dp.<>pt.<a43>
tailscale|tskey-<>auth-<a17>-<a32>
openai|s<>k-<a48>
openai project|s<>k-proj-<a60>
anthropic|s<>k-ant-api03-<a90>
hugging face|h<>f_<l34>
replicate|r<>8_<a37>
groq|gs<>k_<a52>
xai|xa<>i-<a80>
perplexity|pp<>lx-<h48>
nvidia|nva<>pi-<a64>
langsmith|lsv2_<>pt_<h32>_<h10>
weights and biases login|wandb login <h40>
weights and biases relogin|wandb login --relogin <h40>
weights and biases by name|WANDB_API_KEY=<h40>
comet|COMET_API_KEY: <a25>
hugging face login|huggingface-cli login --token <a37>
kaggle|{"username":"x","key_api_key":"<h32>"}
linear|lin_<>api_<a40>
notion|nt<>n_<a46>
figma|fi<>gd_<a40>
atlassian|ATATT<>3<a60>
bitbucket|ATB<>B<a32>
grafana|gl<>sa_<a32>_<h8>
sentry|sn<>trys_<b60>
new relic|NR<>AK-<u27>
datadog|DD_API_KEY=<h32>
datadog application|DD_APP_KEY: <h32>
dynatrace|dt0<>c01.<u24>.<u64>
postman|PM<>AK-<h24>-<h34>
planetscale|pscale_<>tkn_<a43>
supabase|sb<>p_<h40>
circleci|CCI<>PAT_<a22>_<h40>
buildkite|bk<>ua_<h40>
sourcegraph|sg<>p_<h40>
artifactory|AKC<a60>
contentful|CF<>PAT-<a43>
age key|AGE-<>SECRET-KEY-1<u58>
jwt|eyJ<a30>.eyJ<a60>.<a43>
jwt by name|SERVICE_JWT=<a60>
jwe|eyJ<a30>..<a16>.<a60>.<a22>
bearer|Authorization: Bearer <a40>
bearer, opaque|authorization: bearer <a32>
bearer in a command|curl -H "Authorization: Bearer <a40>" https://x
basic|Authorization: Basic <b32>
token header|Authorization: token <a40>
own scheme|Authorization: SSWS <a42>
digest header|Proxy-Authorization: Negotiate <b60>
api key header|X-Api-Key: <a40>
gitlab header|PRIVATE-TOKEN: <a20>
cookie|Cookie: session=<a32>; theme=<a12>
set-cookie|Set-Cookie: sid=<a32>; Path=/; HttpOnly
password in an address|postgres://bob:<w12>@db:5432/x
password of redis|redis://:<w12>@cache:6379
token in an address|https://<a40>@github.com/x/y.git
token and name in an address|https://oauth2:<a20>@gitlab.com/x.git
git over https|git+https://<a40>@github.com/x/y.git
mongo|mongodb+srv://bob:<w12>@c0.example.net/x
amqp|amqp://bob:<w12>@q:5672/
access token in an address|https://x/y?access_token=<a40>
code in an address|https://x.azurewebsites.net/api/f?code=<b43>
netrc in a line|machine x login bob password <w12>
netrc over lines|machine x<n>  login bob<n>  password <w12>
mysql|mysql -u root -p<w12> db
mysqldump|mysqldump -h x -uroot -p<w12> db
curl|curl -u bob:<w12> https://x
curl without a blank|curl -ubob:<w12> https://x
curl long|curl --user bob:<w12> https://x
sshpass|sshpass -p <w12> ssh x
docker login|docker login -u bob -p <w12> x
az login|az login --service-principal -u x -p <w12> --tenant y
redis-cli|redis-cli -h x -a <w12> ping
ldapsearch|ldapsearch -D cn=x -w <w12> -b y
smbclient|smbclient //x/y -U bob%<w12>
openssl|openssl rsa -passin pass:<w12> -in x
flag|mysql --password <w12> --host h
flag with sign|tool --password=<w12>
flag, key|tool --api-key <a32> --verbose
flag, token|kubeadm join x:6443 --token <a6>.<a16>
vault login|vault login <a24>
key variable|MY_KEY=<a32>
secret variable|SECRET_NAME=<w12>
pw variable|DB_PW=<w12>
pass variable|DB_PASS=<w12>
password variable|PGPASSWORD=<w12>
pwd variable|MYSQL_PWD=<w12>
passphrase|GPG_PASSPHRASE='<w6> <w6>'
dsn|SENTRY_DSN=https://<h32>@o1.ingest.sentry.io/1
mnemonic|MNEMONIC="<l8> <l8> <l8>"
webhook variable|ALERT_WEBHOOK=https://x.example.org/<a32>
signing key|SIGNING_KEY: <b44>
license key|LICENSE_KEY=<u5>-<u5>-<u5>
camel case|"clientSecret": "<a32>"
camel case, api|apiKey: <a32>
behind a blank|password <w12>
behind a tab|password<t><w12>
behind a full-width colon|password<c><w12>
behind a full-width sign|password<q><w12>
behind an escape sequence|<e>[31mpassword<e>[0m: <e>[1m<w12><e>[0m
an arrow|'password' => '<w12>'
a walrus|password := <w12>
json in json|"env":["PASSWORD=\"<w6> <w6>\""]
json escaped|{\"password\": \"<w12>\"}
yaml block|password: |<n>  <w12><n>  <w8><n>next: 1
yaml folded block|  api_token: >-<n>    <a40><n>next: 1
kubernetes variable|- name: DB_PASSWORD<n>  value: <w12>
kubernetes variable in a line|{"name": "API_KEY", "value": "<a16>"}
kubeconfig|    client-key-data: <b200>
kubeconfig token|    token: <a60>
ini|password = <w12>
java properties|spring.datasource.password=<w12>
python dict|{'password': '<w12>', 'port': 1}
xml attribute|<add key="x" password="<w12>"/>
jdbc|jdbc:sqlserver://x;user=sa;password=<w12>;encrypt=true
odbc|Driver=x;Uid=sa;Pwd=<w12>;
s3cmd|secret_key = <b40>
rclone|secret_access_key = <b40>
munge|credential: MUNGE:<b80>
ray|RAY_REDIS_PASSWORD=<w12>
slurm|SLURM_JWT=<a80>
jupyter|http://127.0.0.1:8888/?token=<h48>
jupyter lab|Jupyter token: <h48>
openssh key|-----BEGIN OPENSSH <>PRIVATE KEY-----<n><b70><n><b70><n>-----END OPENSSH PRIVATE KEY-----
rsa key|-----BEGIN RSA <>PRIVATE KEY-----<n><b64><n>-----END RSA PRIVATE KEY-----
pkcs8 key|-----BEGIN <>PRIVATE KEY-----<n><b64><n>-----END PRIVATE KEY-----
pgp key|-----BEGIN PGP <>PRIVATE KEY BLOCK-----<n><b64><n>-----END PGP PRIVATE KEY BLOCK-----
ssh2 key|---- BEGIN SSH2 <>PRIVATE KEY ----<n><b64><n>---- END SSH2 PRIVATE KEY ----
putty key|PuTTY-User-Key-File-3: ssh-ed25519<n>Private-Lines: 2<n><b64><n><b20><n>Private-MAC: 1
key in json|{"private_key": "-----BEGIN <>PRIVATE KEY-----\n<b64>\n-----END PRIVATE KEY-----\n"}
"""  # noqa: E501
ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "h": string.hexdigits[:16],
    "l": string.ascii_lowercase,
    "u": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits + "!#%^*_-.",
}
SIGNS = {"": "", "n": "\n", "t": "\t", "e": "\x1b", "c": "\uff1a", "q": "\uff1d"}
MADE_UP = re.compile(r"<(?:([abdhluw])(?=\d))?([ntecq]?|\d+)>")


def made_up(template: str, chance: random.Random) -> tuple[str, list[str]]:
    """Fill in a template; give it with the parts that nobody may see."""
    parts: list[str] = []

    def fill(match: re.Match[str]) -> str:
        if not match[1]:
            return SIGNS[match[2]]
        part = "".join(chance.choices(ALPHABETS[match[1]], k=int(match[2])))
        if match[1] == "w":  # begins and ends as passwords of people do
            part = f"p{part[1:-2]}7x"
        parts.append(part)
        return part

    return MADE_UP.sub(fill, template), [part for part in parts if len(part) > SHORT]


SHORT = 11  # characters: what is shorter may be the name of an account


def corpus(seed: int) -> list[tuple[str, str, list[str]]]:
    chance = random.Random(seed)
    pairs = [line.split("|", 1) for line in KINDS.strip().splitlines()]
    return [(kind, *made_up(template, chance)) for kind, template in pairs]
